/* Reading a caged process: its memory, its descriptors, its names. The caller checks SECCOMP_IOCTL_NOTIF_ID_VALID after
 * the last of these and before it acts, so that a recycled pid never decides anything. */
#include "target.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "../../sys.h" /* the numbers that older headers lack */

#ifndef PIDFD_THREAD
#define PIDFD_THREAD O_EXCL /* Linux 6.9 */
#endif
#define PAGE 4096UL

int64_t read_target(int tid, uint64_t address, void *to, size_t size) {
    struct iovec here = {to, size}, there = {(void *)(uintptr_t)address, size};
    ssize_t got = process_vm_readv(tid, &here, 1, &there, 1, 0);
    return got < 0 ? -errno : got;
}

int read_exactly(int tid, uint64_t address, void *to, size_t size) {
    int64_t got = read_target(tid, address, to, size);
    if (got < 0) return (int)got;
    return got == (int64_t)size ? 0 : -EFAULT;
}

int read_vectors(int tid, const struct iovec *there, size_t count, void *to, size_t size) {
    struct iovec here = {to, size};
    ssize_t got;
    if (!size) return 0;
    got = process_vm_readv(tid, &here, 1, there, count, 0);
    if (got < 0) return -errno;
    return got == (ssize_t)size ? 0 : -EFAULT;
}

int write_exactly(int tid, uint64_t address, const void *from, size_t size) {
    struct iovec here = {(void *)(uintptr_t)from, size}, there = {(void *)(uintptr_t)address, size};
    ssize_t got = process_vm_writev(tid, &here, 1, &there, 1, 0);
    if (got < 0) return -errno;
    return got == (ssize_t)size ? 0 : -EFAULT;
}

/* Page by page: what lies behind the text's end may not be mapped. */
int64_t read_text(int tid, uint64_t address, char *to, size_t room) {
    size_t have = 0;
    while (have < room) {
        size_t piece = PAGE - (address + have) % PAGE;
        int64_t got;
        char *end;
        if (piece > room - have) piece = room - have;
        got = read_target(tid, address + have, to + have, piece);
        if (got <= 0) return got < 0 ? got : -EFAULT;
        end = memchr(to + have, 0, (size_t)got);
        if (end) return end - to;
        have += (size_t)got;
    }
    return -ENAMETOOLONG;
}

int thread_group(int tid) {
    char path[64], text[1024], *line;
    ssize_t got;
    int fd = (int)syscall(SYS_pidfd_open, tid, 0); /* of a leader only, and far quicker than its status */
    if (fd >= 0) {
        close(fd);
        return tid;
    }
    snprintf(path, sizeof path, "/proc/%d/status", tid);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return -errno;
    got = read(fd, text, sizeof text - 1);
    close(fd);
    if (got <= 0) return -ESRCH;
    text[got] = 0;
    line = strstr(text, "\nTgid:");
    return line ? atoi(line + 6) : -ESRCH;
}

static int open_pidfd(int tid, int *leader) {
    int fd = (int)syscall(SYS_pidfd_open, tid, 0);
    *leader = fd >= 0;
    if (fd < 0 && errno != ESRCH) fd = (int)syscall(SYS_pidfd_open, tid, PIDFD_THREAD);
    if (fd < 0 && errno != ESRCH) {
        int group = thread_group(tid);
        if (group <= 0) return group ? group : -ESRCH;
        fd = (int)syscall(SYS_pidfd_open, group, 0);
    }
    return fd < 0 ? -errno : fd;
}

void forget_pidfds(struct pidfds *cache) {
    int i;
    for (i = 0; i < PIDFDS; i++)
        if (cache->pid[i]) close(cache->fd[i]);
    memset(cache, 0, sizeof *cache);
}

int take_fd(struct pidfds *cache, int tid, int fd) {
    const int place = tid % PIDFDS;
    int pidfd, leader, taken, number;
    if (cache->pid[place] == tid) {
        taken = (int)syscall(SYS_pidfd_getfd, cache->fd[place], fd, 0);
        if (taken >= 0) return taken;
    }
    pidfd = open_pidfd(tid, &leader);
    if (pidfd < 0) return pidfd;
    taken = (int)syscall(SYS_pidfd_getfd, pidfd, fd, 0);
    number = errno;
    if (leader) {
        if (cache->pid[place]) close(cache->fd[place]);
        cache->pid[place] = tid;
        cache->fd[place] = pidfd;
    } else {
        close(pidfd);
    }
    return taken < 0 ? -number : taken;
}
