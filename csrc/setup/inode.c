/* Whether an open file is still the inode that the plan was made for, and whether its name still leads to it. */

#include "../uapi.h"
#include "setup.h"

/* glibc's makedev, which is what Python's st_dev holds. */
static uint64_t device_number(const struct statx *facts) {
    uint64_t major = facts->stx_dev_major, minor = facts->stx_dev_minor;
    return (major & 0xfff) << 8 | (major & ~0xfffULL) << 32 | (minor & 0xff) | (minor & ~0xffULL) << 12;
}

long check_inode(long fd, uint64_t dev, uint64_t ino, int *is_directory) {
    struct statx facts;
    long result = sys_call(SYS_statx, fd, "", AT_EMPTY_PATH, STATX_TYPE | STATX_INO, &facts, 0);
    if (result < 0) return result;
    *is_directory = (facts.stx_mode & S_IFMT) == S_IFDIR;
    return ino && (facts.stx_ino != ino || device_number(&facts) != dev) ? -ESTALE : 0;
}

/* The kernel marks the path of a descriptor whose name is gone (d_path; proc(5), /proc/PID/fd). */
int is_unlinked(long fd) {
    static const char mark[] = " (deleted)";
    char link[40], path[4096];
    size_t at, size = text_copy(link, sizeof link, "/proc/self/fd/");
    long length;
    text_number(link + size, (unsigned long)fd);
    length = sys_call(SYS_readlinkat, AT_FDCWD, link, path, sizeof path, 0, 0);
    if (length < (long)sizeof mark - 1) return 0;
    for (at = 0; at < sizeof mark - 1; at++)
        if (path[(size_t)length - sizeof mark + 1 + at] != mark[at]) return 0;
    return 1;
}
