/* Reading a caged process; see target.h. Each function that reads ends with still_is, after whatever goes by the
 * number; the one that writes by it (write_target) begins with that. */
#include "target.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/seccomp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "../../sys.h" /* the numbers that older headers lack */

#ifndef PIDFD_THREAD
#define PIDFD_THREAD O_EXCL /* Linux 6.9 */
#endif
#ifndef PIDFD_SIGNAL_THREAD
#define PIDFD_SIGNAL_THREAD 1
#endif
#define PAGE 4096UL
#define TRIES 8 /* after a signal, or while memory is short */

/* ---- whose it is ------------------------------------------------------------------------------------------------- */

int is_waiting(int listener, uint64_t id) {
    int tries, result = -1;
    for (tries = 0; tries < TRIES && result; tries++) {
        result = ioctl(listener, SECCOMP_IOCTL_NOTIF_ID_VALID, &id) < 0 ? -errno : 0;
        if (result == -ENOENT) break;
    }
    return !result;
}

static int still_is(const struct target *caller) {
    return caller->held || is_waiting(caller->listener, caller->id);
}

/* A descriptor that was opened by the caller's number, if that is the caller's still. */
static int if_its_own(const struct target *caller, int fd) {
    if (fd < 0 || still_is(caller)) return fd;
    close(fd);
    return -ESRCH;
}

/* ---- memory ------------------------------------------------------------------------------------------------------ */

static int64_t read_places(const struct target *caller, const struct iovec *there, size_t count, void *to,
                           size_t size) {
    struct iovec here = {to, size};
    ssize_t got = process_vm_readv(caller->tid, &here, 1, there, count, 0);
    if (got < 0) return -errno;
    return still_is(caller) ? got : -ESRCH;
}

int64_t read_target(const struct target *caller, uint64_t address, void *to, size_t size) {
    const struct iovec there = {(void *)(uintptr_t)address, size};
    return read_places(caller, &there, 1, to, size);
}

int read_exactly(const struct target *caller, uint64_t address, void *to, size_t size) {
    int64_t got = read_target(caller, address, to, size);
    if (got < 0) return (int)got;
    return got == (int64_t)size ? 0 : -EFAULT;
}

int read_vectors(const struct target *caller, const struct iovec *there, size_t count, void *to, size_t size) {
    int64_t got;
    if (!size) return 0;
    got = read_places(caller, there, count, to, size);
    if (got < 0) return (int)got;
    return got == (int64_t)size ? 0 : -EFAULT;
}

/* Page by page: what lies behind the text's end may not be mapped. */
int64_t read_text(const struct target *caller, uint64_t address, char *to, size_t room) {
    size_t have = 0;
    while (have < room) {
        size_t piece = PAGE - (address + have) % PAGE;
        int64_t got;
        char *end;
        if (piece > room - have) piece = room - have;
        got = read_target(caller, address + have, to + have, piece);
        if (got <= 0) return got < 0 ? got : -EFAULT;
        end = memchr(to + have, 0, (size_t)got);
        if (end) return end - to;
        have += (size_t)got;
    }
    return -ENAMETOOLONG;
}

int open_memory(const struct target *caller) {
    return open_of(caller, "mem", O_WRONLY);
}

int write_memory(int memory, uint64_t address, const void *from, size_t size) {
    const ssize_t got = pwrite(memory, from, size, (off_t)address);
    if (got < 0) return -errno;
    return got == (ssize_t)size ? 0 : -EFAULT;
}

int write_target(const struct target *caller, uint64_t address, const void *from, size_t size) {
    const struct iovec here = {(void *)(uintptr_t)from, size}, there = {(void *)(uintptr_t)address, size};
    ssize_t got;
    if (!still_is(caller)) return -ESRCH;
    got = process_vm_writev(caller->tid, &here, 1, &there, 1, 0);
    if (got < 0) return -errno;
    return got == (ssize_t)size ? 0 : -EFAULT;
}

/* ---- what /proc has of it ---------------------------------------------------------------------------------------- */

int open_of(const struct target *caller, const char *name, int flags) {
    char path[64];
    int fd;
    snprintf(path, sizeof path, "/proc/%d/%s", caller->tid, name);
    fd = open(path, flags | O_CLOEXEC | O_NOCTTY);
    return fd < 0 ? -errno : if_its_own(caller, fd);
}

int64_t link_of(const struct target *caller, const char *name, char *to, size_t room) {
    char path[64];
    ssize_t got;
    snprintf(path, sizeof path, "/proc/%d/%s", caller->tid, name);
    got = readlink(path, to, room - 1);
    if (got < 0) return -errno;
    to[got] = 0;
    return still_is(caller) ? got : -ESRCH;
}

int64_t directory_of(const struct target *caller, int directory, char *to, size_t room) {
    char name[32] = "cwd";
    if (directory != AT_FDCWD) snprintf(name, sizeof name, "fd/%d", directory);
    return link_of(caller, name, to, room);
}

/* ---- who it is --------------------------------------------------------------------------------------------------- */

static int read_group(const struct target *caller) {
    char text[1024], *line;
    const int fd = open_of(caller, "status", O_RDONLY);
    ssize_t got;
    if (fd < 0) return fd;
    got = read(fd, text, sizeof text - 1);
    close(fd);
    if (got <= 0) return -ESRCH;
    text[got] = 0;
    line = strstr(text, "\nTgid:");
    return line ? atoi(line + 6) : -ESRCH;
}

int thread_group(const struct target *caller) {
    /* A pidfd without flags is of a leader, and far quicker to have than its status. */
    const int fd = if_its_own(caller, (int)syscall(SYS_pidfd_open, caller->tid, 0));
    if (fd < 0) return fd == -ESRCH ? fd : read_group(caller);
    close(fd);
    return caller->tid;
}

int session_of(const struct target *caller) {
    const pid_t session = getsid(caller->tid);
    return session > 0 && still_is(caller) ? session : 0;
}

/* A thread that does not lead its group has a pidfd of its own since Linux 6.9; before, its leader's is taken. Then the
 * descriptors are the leader's, too: a thread that has a table of its own (CLONE_FILES left out) meets a number that is
 * not its own, or none. It can only be harmed by what it has made. */
static int open_pidfd(const struct target *caller, int *leads) {
    int group, fd = (int)syscall(SYS_pidfd_open, caller->tid, 0);
    *leads = fd >= 0;
    if (fd < 0 && errno != ESRCH) fd = (int)syscall(SYS_pidfd_open, caller->tid, PIDFD_THREAD);
    if (fd < 0 && errno != ESRCH) {
        group = read_group(caller);
        if (group <= 0) return group ? group : -ESRCH;
        fd = (int)syscall(SYS_pidfd_open, group, 0);
    }
    return fd < 0 ? -errno : if_its_own(caller, fd);
}

/* Before Linux 6.9 a thread can only be named by its number: then a moment is left between the look and the signal. */
void signal_caller(const struct target *caller, int signal) {
    int leads;
    const int pidfd = open_pidfd(caller, &leads);
    if (pidfd < 0) return;
    if (syscall(SYS_pidfd_send_signal, pidfd, signal, NULL, PIDFD_SIGNAL_THREAD) < 0 && errno == EINVAL &&
        still_is(caller))
        syscall(SYS_tkill, caller->tid, signal);
    close(pidfd);
}

/* ---- descriptors ------------------------------------------------------------------------------------------------- */

void forget_pidfds(struct pidfds *cache) {
    int i;
    for (i = 0; i < PIDFDS; i++)
        if (cache->pid[i]) close(cache->fd[i]);
    memset(cache, 0, sizeof *cache);
}

static void keep_pidfd(struct pidfds *cache, int tid, int pidfd) {
    const int place = tid % PIDFDS;
    if (cache->pid[place]) close(cache->fd[place]);
    cache->pid[place] = tid;
    cache->fd[place] = pidfd;
}

int take_fd(struct pidfds *cache, const struct target *caller, int fd) {
    const int place = caller->tid % PIDFDS;
    int pidfd, leads, taken, number;
    if (cache->pid[place] == caller->tid) {
        taken = (int)syscall(SYS_pidfd_getfd, cache->fd[place], fd, 0);
        if (taken >= 0) return taken;
    }
    pidfd = open_pidfd(caller, &leads);
    if (pidfd < 0) return pidfd;
    taken = (int)syscall(SYS_pidfd_getfd, pidfd, fd, 0);
    number = errno;
    if (leads)
        keep_pidfd(cache, caller->tid, pidfd);
    else
        close(pidfd);
    return taken < 0 ? -number : taken;
}
