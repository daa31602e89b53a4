/* Opening below a root, so that nothing of a hostile tree leads out of it (openat2(2), RESOLVE_*). */
#include "open_inside.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "../../sys.h" /* the numbers that older headers lack */
#include "../notify/effective_caps.h"

/* ".." below a root is EAGAIN where anything on the host was renamed or mounted meanwhile. */
#define MOST_TRIES 64

int psb_open_inside(int root_fd, const char *path, uint64_t flags, uint64_t mode, uint64_t resolve) {
    struct open_how how = {.flags = flags | O_CLOEXEC, .mode = mode, .resolve = resolve};
    long fd;
    int tries = MOST_TRIES;
    do fd = syscall(SYS_openat2, root_fd, path, &how, sizeof how);
    while (fd < 0 && errno == EAGAIN && !(resolve & RESOLVE_CACHED) && --tries);
    return fd < 0 ? -errno : (int)fd;
}

/* What a thread cannot get back it goes on without, and the caller hears of it: it never opens more than it should. */
int psb_open_powerless(int root_fd, const char *path, uint64_t flags, uint64_t mode, uint64_t resolve, uint32_t user) {
    struct powers powers;
    int result = drop_effective_caps(&powers, NO_POWERS, user), restored;
    if (result) return result;
    result = psb_open_inside(root_fd, path, flags, mode, resolve);
    restored = restore_powers(&powers);
    if (!restored) return result;
    if (result >= 0) close(result);
    return restored;
}

static int change_name(int change, int fd, const char *name, uint32_t mode, int other_fd, const char *other) {
    switch (change) {
    case PSB_NAME_MKDIR: return mkdirat(fd, name, mode);
    case PSB_NAME_UNLINK: return unlinkat(fd, name, 0);
    case PSB_NAME_RMDIR: return unlinkat(fd, name, AT_REMOVEDIR);
    case PSB_NAME_RENAME: return renameat(fd, name, other_fd, other);
    default: errno = EINVAL; return -1;
    }
}

int psb_change_name(int change, int fd, const char *name, uint32_t mode, int other_fd, const char *other,
                    uint32_t user) {
    struct powers powers;
    int result = drop_effective_caps(&powers, NO_POWERS, user), restored;
    if (result) return result;
    result = change_name(change, fd, name, mode, other_fd, other) ? -errno : 0;
    restored = restore_powers(&powers);
    return result ? result : restored;
}

int psb_rename_name(int fd, const char *name, int other_fd, const char *other, uint32_t flags) {
    return (int)sys_call(SYS_renameat2, fd, name, other_fd, other, flags, 0);
}

int psb_sync_file_system(int fd) {
    return syncfs(fd) < 0 ? -errno : 0;
}

int64_t psb_file_system(int fd) {
    struct statfs found;
    return fstatfs(fd, &found) < 0 ? -errno : (int64_t)found.f_type;
}
