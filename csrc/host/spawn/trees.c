/* A tree belongs to whoever holds its descriptor, and ends with it when it was never attached. */
#include "trees.h"

#include <fcntl.h>
#include <linux/mount.h>
#include <linux/openat2.h>

#include "../../sys.h"

#define PRIVATE (1U << 18) /* MS_PRIVATE: <sys/mount.h> and <linux/mount.h> cannot both be included */
#ifndef AT_RECURSIVE
#define AT_RECURSIVE 0x8000
#endif

long take_tree(const char *path) {
    const struct open_how how = {.flags = O_PATH | O_CLOEXEC, .resolve = RESOLVE_NO_SYMLINKS};
    long tree, fd = sys_call(SYS_openat2, AT_FDCWD, path, &how, sizeof how, 0, 0);
    if (fd < 0) return fd;
    tree = sys_call(SYS_open_tree, fd, "", OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_EMPTY_PATH | AT_RECURSIVE, 0, 0, 0);
    sys_close((int)fd);
    return tree;
}

long map_tree(int tree, int idmap_fd) {
    struct mount_attr attr = {.attr_set = MOUNT_ATTR_IDMAP, .propagation = PRIVATE, .userns_fd = (uint64_t)idmap_fd};
    return sys_call(SYS_mount_setattr, tree, "", AT_EMPTY_PATH | AT_RECURSIVE, &attr, sizeof attr, 0);
}

long make_private(int tree) {
    struct mount_attr attr = {.propagation = PRIVATE};
    return sys_call(SYS_mount_setattr, tree, "", AT_EMPTY_PATH | AT_RECURSIVE, &attr, sizeof attr, 0);
}
