/* What Python reads of the caller of a call that waits, and takes from it (read by cffi, preprocessor lines stripped).
 * Any thread may call these; -ENOENT: it waits no more, -ESRCH: its caller is gone. */
#ifndef PSB_TARGET_ACCESS_H
#define PSB_TARGET_ACCESS_H

#include <stddef.h>
#include <stdint.h>

#include "notify.h"

/* Reads a NUL-terminated text of the caller: its length, -ENAMETOOLONG when it is longer than `room`, -errno. */
int64_t psb_read_text(struct psb_notifier *notifier, uint64_t pending, uint64_t address, char *to, size_t room);
/* Path and arguments of an execve as they are now: their size, -E2BIG when there is not room enough, -errno. */
int64_t psb_read_exec(struct psb_notifier *notifier, uint64_t pending, char *to, size_t room);
/* Looks at the paths of the call, also where a disk has to be asked: how many it would be refused. `looks` has room for
 * PSB_LOOKS. */
int psb_look_at_paths(struct psb_notifier *notifier, uint64_t pending, int on_host, struct psb_look *looks);
/* A duplicate of a descriptor of the caller's, close-on-exec; -errno. */
int psb_take_fd(struct psb_notifier *notifier, uint64_t pending, int fd);
/* A duplicate of a descriptor of whoever has this number: the caller finds out whose it was, before it does anything
 * with it (pysandbox/supervise/cut.py). */
int psb_get_fd(int pid, int fd);
/* Closes such a one without waiting for what its process has set (SO_LINGER). */
void psb_close_borrowed(int fd);

#endif
