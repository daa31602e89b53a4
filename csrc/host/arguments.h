/* The path and the arguments of an execve, as the caller's memory has them, and whether they can still change. */
#ifndef PSB_ARGUMENTS_H
#define PSB_ARGUMENTS_H

#include <stddef.h>
#include <stdint.h>

/* A caller whose memory nobody else can write. */
struct hold {
    int tid;
    int trusted; /* cage-init's own: settled as it is */
};

/* Sees to it that no task can write the memory of `tid`, which waits in a notification itself; `init_pid` is above
 * every task of the cage. 0, or -errno: it cannot be had. */
int hold_arguments(struct hold *hold, int tid, int init_pid);
/* After the answer: once the kernel has its own copy, whoever was held goes on. */
void release_arguments(struct hold *hold);

/* Path, then each argument, each with its NUL: the size, -E2BIG when there is more than `room`, -errno. */
int64_t read_arguments(int tid, int number, const uint64_t *args, char *to, size_t room);
/* Makes the pages that hold them the caller's own (neither shared nor of a file) and compares: 0, or -errno (-EPERM
 * when they are not `expected`, or cannot be made its own). To be called while they are held. */
int settle_arguments(int tid, int number, const uint64_t *args, const char *expected, size_t size);

#endif
