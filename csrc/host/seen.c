/* Whether paths that were looked at are still what they were: one stat each, in one call from Python. */
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../abi.h"
#include "probe.h"
#include "spawn.h"

int psb_still_there(const struct psb_seen *seen, size_t count) {
    size_t i;
    for (i = 0; i < count; i++) {
        struct stat now;
        const int there = stat(seen[i].path, &now) == 0;
        if (there != (seen[i].ino != 0)) return 0;
        if (there && (now.st_ino != seen[i].ino || now.st_dev != seen[i].dev)) return 0;
    }
    return 1;
}

/* A name that cannot be looked at is something: whoever made it so may have made more. */
static int is_there(int tree, const char *name) {
    const uint64_t resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS;
    struct stat now;
    int fd;
    if (!strchr(name, '/')) return !fstatat(tree, name, &now, AT_SYMLINK_NOFOLLOW) || errno != ENOENT;
    fd = psb_open_inside(tree, name, O_PATH | O_NOFOLLOW, 0, resolve);
    if (fd >= 0) close(fd);
    return fd != -ENOENT && fd != -ENOTDIR;
}

size_t psb_appeared(const struct psb_absent *absent, size_t count, uint8_t *there) {
    size_t i, found = 0;
    int tree = -1;
    for (i = 0; i < count; i++) {
        if (!i || strcmp(absent[i].tree, absent[i - 1].tree) != 0) {
            if (tree >= 0) close(tree);
            tree = psb_open_inside(AT_FDCWD, absent[i].tree, O_PATH | O_DIRECTORY, 0, RESOLVE_NO_SYMLINKS);
        }
        there[i] = tree >= 0 && is_there(tree, absent[i].name);
        found += there[i];
    }
    if (tree >= 0) close(tree);
    return found;
}
