/* Closing a path of a cage that runs. cage-init has no capability left, and needs none: a short-lived child of the
 * host, which owns the cage's user namespace, enters it and mounts there. */
#include <errno.h>
#include <fcntl.h>
#include <linux/mount.h>
#include <sched.h>
#include <sys/vfs.h>

#include "../abi.h"
#include "../sys.h"
#include "errand.h"
#include "spawn.h"

#define COVER "/.cover"

struct cover {
    int pidfd;
    int target; /* O_PATH: it was looked up by the host, and no name is followed again */
    int directory;
    uint32_t user; /* whom the cage is outside, where that is another than ours; else 0 */
    long result;   /* 0, or -errno; what stays when something kills the child is -ESRCH */
};

/* An object that nobody may open, on the cage's own root; only the mount will hold it. */
static long make_cover(int directory) {
    long result = directory ? sys_call(SYS_mkdirat, SYS_AT_FDCWD, COVER, 0, 0, 0, 0)
                            : sys_open(COVER, SYS_O_WRONLY | SYS_O_CREAT | SYS_O_EXCL | SYS_O_CLOEXEC, 0);
    if (result < 0) return result;
    if (!directory) sys_close((int)result);
    return sys_call(SYS_open_tree, SYS_AT_FDCWD, COVER, OPEN_TREE_CLONE | SYS_O_CLOEXEC, 0, 0, 0);
}

static long move_over(long tree, long target) {
    struct mount_attr sealed = {.attr_set =
                                    MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC};
    long result = sys_call(SYS_mount_setattr, tree, "", AT_EMPTY_PATH, &sealed, sizeof sealed, 0);
    if (result < 0) return result;
    return sys_call(SYS_move_mount, tree, "", target, "", MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH, 0);
}

/* No /proc/self here: this process is not in the cage's PID namespace. So the mount is moved by descriptors. */
static long mount_cover(const struct cover *cover) {
    long result, tree;
    if (cover->user) sys_call(SYS_setfsgid, cover->user, 0, 0, 0, 0, 0);
    if (cover->user) sys_call(SYS_setfsuid, cover->user, 0, 0, 0, 0, 0); /* ours has no name in the cage's namespace */
    result = sys_call(SYS_setns, cover->pidfd, CLONE_NEWUSER | CLONE_NEWNS, 0, 0, 0, 0);
    if (result < 0) return result;
    tree = make_cover(cover->directory);
    result = tree < 0 ? tree : move_over(tree, cover->target);
    sys_call(SYS_unlinkat, SYS_AT_FDCWD, COVER, cover->directory ? AT_REMOVEDIR : 0, 0, 0, 0);
    return result;
}

static void cover_inside(void *argument) {
    struct cover *cover = argument;
    cover->result = mount_cover(cover);
}

int psb_cover(int init_pidfd, int target, int directory, uint32_t user) {
    struct cover cover = {init_pidfd, target, directory, user, -ESRCH};
    int result = run_errand(0, cover_inside, &cover);
    return result < 0 ? result : (int)cover.result;
}

int64_t psb_file_system(int fd) {
    struct statfs found;
    return fstatfs(fd, &found) < 0 ? -errno : (int64_t)found.f_type;
}
