/* Whether something is mounted at paths of a cage, asked of the paths themselves: a few calls for each, where the table
 * of all mounts is written out by the kernel and read a row at a time. */
#include "mounted.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../spawn/open_inside.h"

#ifndef RESOLVE_CACHED
#define RESOLVE_CACHED 0x20
#endif
#ifndef STATX_ATTR_MOUNT_ROOT
#define STATX_ATTR_MOUNT_ROOT 0x2000
#endif

/* It waits for no file system: what the kernel would have to ask one for is not known here. Before Linux 5.12 that is
 * all. */
static int is_mounted(int root, const char *path) {
    struct statx facts = {.stx_attributes = 0};
    const int fd =
        psb_open_inside(root, path, O_PATH | O_NOFOLLOW, 0, RESOLVE_IN_ROOT | RESOLVE_NO_SYMLINKS | RESOLVE_CACHED);
    int failed;
    if (fd < 0) return 0;
    failed = statx(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, 0, &facts);
    close(fd);
    return !failed && (facts.stx_attributes & STATX_ATTR_MOUNT_ROOT) != 0;
}

int psb_all_mounted(int pid, const char *paths) {
    char place[32];
    int root, all = 1;
    snprintf(place, sizeof place, "/proc/%d/root", pid);
    root = open(place, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (root < 0) return 0;
    for (; all && *paths; paths += strlen(paths) + 1) all = is_mounted(root, paths);
    close(root);
    return all;
}
