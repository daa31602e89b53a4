/* A nameless object that covers something: made at a path of the cage's own, taken as a detached mount, moved to its
 * place and then unlinked (what has no name any more cannot be moved), so that only the mount holds it. With mode 0
 * nobody opens it (no process of the cage has CAP_DAC_OVERRIDE), and read-only keeps its mode from changing. */
#include "../uapi.h"
#include "setup.h"

static long make_object(const char *path, int directory, uint32_t mode) {
    const long result = directory ? sys_call(SYS_mkdirat, AT_FDCWD, path, mode, 0, 0, 0)
                                  : sys_open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, (int)mode);
    if (!directory && result >= 0) sys_close((int)result);
    return result;
}

static long seal_tree(long tree) {
    struct mount_attr read_only = {.attr_set =
                                       MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC};
    return sys_call(SYS_mount_setattr, tree, "", AT_EMPTY_PATH, &read_only, sizeof read_only, 0);
}

static long move_to(const char *path, const struct cover_place *place) {
    const long tree = sys_call(SYS_open_tree, AT_FDCWD, path, OPEN_TREE_CLONE | O_CLOEXEC, 0, 0, 0);
    const unsigned flags = MOVE_MOUNT_F_EMPTY_PATH | place->flags;
    long result;
    if (tree < 0) return tree;
    result = seal_tree(tree);
    if (result >= 0) result = sys_call(SYS_move_mount, tree, "", place->directory, place->path, flags, 0);
    sys_close((int)tree);
    return result;
}

long cover_with_new(const char *path, int directory, uint32_t mode, const struct cover_place *place) {
    long result = make_object(path, directory, mode), unlinked;
    if (result < 0) return result;
    result = move_to(path, place);
    unlinked = sys_call(SYS_unlinkat, AT_FDCWD, path, directory ? AT_REMOVEDIR : 0, 0, 0, 0);
    return result < 0 ? result : unlinked;
}
