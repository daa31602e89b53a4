/* A null device that can be given away: root owns the node, so its cages could change the mode of the host's own by
 * fchmod(2). */
#include "null.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/mount.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "../../sys.h" /* the numbers that older headers lack */

/* A mount that is attached nowhere lives as long as what was opened through it. */
static int open_through(int tree) {
    struct mount_attr attr = {.attr_set = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC};
    char path[40];
    int fd;
    if (syscall(SYS_mount_setattr, tree, "", AT_EMPTY_PATH, &attr, sizeof attr) < 0) return -errno;
    snprintf(path, sizeof path, "/proc/self/fd/%d", tree);
    fd = open(path, O_RDWR | O_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

int psb_open_null(void) {
    const int tree = (int)syscall(SYS_open_tree, AT_FDCWD, "/dev/null", OPEN_TREE_CLONE | O_CLOEXEC);
    int fd;
    if (tree < 0) return -errno;
    fd = open_through(tree);
    close(tree);
    return fd;
}
