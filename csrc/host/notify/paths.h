/* What a cage refuses of the files that its calls name: watched, never decided. The call goes on whatever is found.
 *
 * What the kernel will answer is looked up in the cage's own root, while its caller is held; whether the host has the
 * file is asked by Python, later: nothing of that may be felt in the cage. */
#ifndef PSB_PATHS_H
#define PSB_PATHS_H

#include <stdint.h>

#include "notify.h"

struct call_facts;

/* Looks at every path of the call: how many it would be refused, or -EAGAIN where a look would have to wait for a
 * disk (with `cached`). */
int look_at_paths(const struct call_facts *facts, int on_host, int cached, struct psb_look *looks);

/* Whether the first path of a rename is a directory; or may be, where to look would have to wait for a disk. */
int moves_directory(const struct call_facts *facts);

#endif
