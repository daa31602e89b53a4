/* What an execve has become: the caller is followed with ptrace(2) up to the point where the kernel has its own copy of
 * path and arguments, in memory that is the new program's alone, and before that program runs.
 *
 * ptrace is the right of one thread: whoever calls watch_exec calls one of those that end it. */
#ifndef PSB_IMAGE_H
#define PSB_IMAGE_H

#include "notify.h"
#include "target.h"

struct watch {
    int tid, group;
};

/* From now on the caller, which waits in a notification, stops when its execve has succeeded or failed. 0, -ESRCH,
 * -EACCES.
 */
int watch_exec(struct watch *watch, const struct target *caller);
/* After the answer: waits for that stop, or the caller's death, and lets it go on. */
void end_watch(const struct watch *watch);
/* As end_watch; what has become another image than this one stays where it is: -EPERM, and end_image kills it. */
int follow_exec(const struct watch *watch, const struct psb_image *image);
void end_image(const struct watch *watch);

/* Whether `tid` is a copy of cage-init still, in whose memory nobody in the cage can look or write. */
int is_init(int tid, int init_pid);

#endif
