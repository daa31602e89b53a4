/* What the supervisor reads of a caged process, and takes from it. Plain functions on pids; no state but the cache of
 * pidfds that its owner passes in. */
#ifndef PSB_TARGET_H
#define PSB_TARGET_H

#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#define PIDFDS 64

/* pidfds of thread-group leaders, by pid. A pid is not used again while its process lives, and what is asked of a dead
 * process fails, so an entry can be stale but never mean another process. */
struct pidfds {
    int pid[PIDFDS];
    int fd[PIDFDS];
};

void forget_pidfds(struct pidfds *cache);
/* A duplicate of the caller's descriptor; -errno. */
int take_fd(struct pidfds *cache, int tid, int fd);

/* Bytes read; -EFAULT when none, -EPERM when the process may not be read. */
int64_t read_target(int tid, uint64_t address, void *to, size_t size);
/* 0 when all of it was read. */
int read_exactly(int tid, uint64_t address, void *to, size_t size);
/* What lies at `count` places, `size` bytes in all, by one call. */
int read_vectors(int tid, const struct iovec *there, size_t count, void *to, size_t size);
int write_exactly(int tid, uint64_t address, const void *from, size_t size);
/* The length of a NUL-terminated text of less than `room` bytes, or -errno (-ENAMETOOLONG). */
int64_t read_text(int tid, uint64_t address, char *to, size_t room);
/* The thread group of a thread, or -errno. */
int thread_group(int tid);

#endif
