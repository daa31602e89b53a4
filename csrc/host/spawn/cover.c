/* Closing a path of a cage that runs. cage-init has no capability left, and needs none: a short-lived child of the
 * host, which owns the cage's user namespace, enters it and mounts there. */
#include "cover.h"

#include <errno.h>
#include <linux/mount.h>
#include <sched.h>

#include "../../setup/setup.h"
#include "vfork_child.h"

struct cover {
    int pidfd;
    int target; /* O_PATH: it was looked up by the host, and no name is followed again */
    int directory;
    uint32_t user; /* whom the cage is outside, where that is another than ours; else 0 */
    long result;   /* 0, or -errno; what stays when something kills the child is -ESRCH */
};

/* No /proc/self here: this process is not in the cage's PID namespace. So the mount is moved by descriptors. */
static long mount_cover(const struct cover *cover) {
    const struct cover_place place = {cover->target, "", MOVE_MOUNT_T_EMPTY_PATH};
    long result;
    if (cover->user) sys_call(SYS_setfsgid, cover->user, 0, 0, 0, 0, 0);
    if (cover->user) sys_call(SYS_setfsuid, cover->user, 0, 0, 0, 0, 0); /* ours has no name in the cage's namespace */
    result = sys_call(SYS_setns, cover->pidfd, CLONE_NEWUSER | CLONE_NEWNS, 0, 0, 0, 0);
    return result < 0 ? result : cover_with_new("/.cover", cover->directory, 0, &place);
}

static void cover_inside(void *argument) {
    struct cover *cover = argument;
    cover->result = mount_cover(cover);
}

int psb_cover(int init_pidfd, int target, int directory, uint32_t user) {
    struct cover cover = {init_pidfd, target, directory, user, -ESRCH};
    int result = run_in_vfork_child(0, cover_inside, &cover);
    return result < 0 ? result : (int)cover.result;
}
