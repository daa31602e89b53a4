/* What the supervisor reads of a caged process, and takes from it: its memory, its descriptors, its directories. There
 * is no other way to them (tests/meta/test_on_behalf.py).
 *
 * A thread is named by its number, which means another process as soon as it has died and was waited for; a cage can
 * have that happen at any moment, and know which number the host gives out next. So each of these functions looks by
 * the number first, holds what it has found (a descriptor of it, or a copy), and asks the kernel then whether the call
 * still waits (SECCOMP_IOCTL_NOTIF_ID_VALID): if so, its caller has lived all the while, and what is held is the
 * caller's. Whatever is got here is the caller's own for good. -ESRCH: it is gone, and nothing was got. */
#ifndef PSB_TARGET_H
#define PSB_TARGET_H

#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#define PIDFDS 64
#define LONGEST_PATH 4096            /* PATH_MAX */
#define PATH_ROOM (2 * LONGEST_PATH) /* ... below a directory */

struct target {
    int tid;
    int listener; /* of its filter, and the notification in which it waits */
    uint64_t id;
    int held; /* without these: this thread traces it, and its number stays its own until it is waited for; or
                 whose it was is found out afterwards, before anything is done with what was got */
};

/* pidfds of thread-group leaders that were callers, by pid. A pid is not used again while its process lives, and what
 * is asked of a dead process fails, so an entry can be stale but never mean another process. */
struct pidfds {
    int pid[PIDFDS];
    int fd[PIDFDS];
};

/* Whether a notification is still unanswered, and its caller alive. */
int is_waiting(int listener, uint64_t id);

void forget_pidfds(struct pidfds *cache);
/* A duplicate of the caller's descriptor; -errno. */
int take_fd(struct pidfds *cache, const struct target *caller, int fd);

/* Bytes read; -EFAULT when none, -EPERM when the process may not be read. */
int64_t read_target(const struct target *caller, uint64_t address, void *to, size_t size);
/* 0 when all of it was read. */
int read_exactly(const struct target *caller, uint64_t address, void *to, size_t size);
/* What lies at `count` places, `size` bytes in all, by one call. */
int read_vectors(const struct target *caller, const struct iovec *there, size_t count, void *to, size_t size);
/* The length of a NUL-terminated text of less than `room` bytes, or -errno (-ENAMETOOLONG). */
int64_t read_text(const struct target *caller, uint64_t address, char *to, size_t room);

/* The memory that is the caller's now, to be written: a descriptor, which never means another one (proc(5), mem). */
int open_memory(const struct target *caller);
/* By the caller's number, right after a look whether it is its own still: for a caller whose memory cannot be opened,
 * as that of one that may not be dumped (proc(5), mem). 0 when all of it was written. */
int write_target(const struct target *caller, uint64_t address, const void *from, size_t size);
/* 0 when all of it was written. A private page is written even where it is read-only, as by the caller's debugger. */
int write_memory(int memory, uint64_t address, const void *from, size_t size);

/* A file of the caller's in /proc, or what a link there leads to ("root" with O_PATH): a descriptor; -errno. */
int open_of(const struct target *caller, const char *name, int flags);
/* Where a link there leads ("cwd", "fd/3"): the length, or -errno. */
int64_t link_of(const struct target *caller, const char *name, char *to, size_t room);

/* Where a relative path of its begins: at its working directory (AT_FDCWD), or at a descriptor. */
int64_t directory_of(const struct target *caller, int directory, char *to, size_t room);

/* The thread group of a thread, or -errno. */
int thread_group(const struct target *caller);
/* Its session, by the host's number; 0 when it is gone. */
int session_of(const struct target *caller);
/* Sends the thread a signal, if it still waits. */
void signal_caller(const struct target *caller, int signal);

#endif
