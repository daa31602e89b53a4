/* Ctrl-Z for a command that no shell in the cage attends to (pysandbox/cli/stop_key.py). */
#ifndef PSB_LAUNCHER_STOP_KEY_H
#define PSB_LAUNCHER_STOP_KEY_H

#include <stddef.h>

struct terminal;

/* For keys that were typed and not sent: how many of them there are up to one that stops the command, and that the
 * kernel will let come to nothing; 0: none. */
size_t typed_to_stop(const struct terminal *terminal);

/* Stops our process group as the key would; returns when we go on. */
void stop_our_group(void);

#endif
