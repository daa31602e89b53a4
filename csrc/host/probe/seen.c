/* Whether paths that were looked at are still what they were: at most one stat each, in one call from Python. A name
 * that was not there is not asked for again while the directory that it would be in has not changed. */
#include "seen.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <linux/openat2.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

#include "../spawn/open_inside.h"

#ifndef ZFS_SUPER_MAGIC
#define ZFS_SUPER_MAGIC 0x2fc12fc1 /* outside of the kernel's tree */
#endif
#define NS 1000000000ull
#define ONCE 1           /* in place of a time: there was a look */
#define COARSE (NS / 50) /* a file's time is that of the last tick */
#define RACY (2 * NS)    /* a change so shortly before the look may be followed by one with the same time */

static uint64_t change_of(const struct stat *of) {
    return (uint64_t)of->st_ctim.tv_sec * NS + (uint64_t)of->st_ctim.tv_nsec;
}

/* The time of change that speaks for what a directory lacks; 0 when it is too young to. A cage cannot set it back, as
 * it can the time of modification. */
static uint64_t settled(const struct stat *directory) {
    const uint64_t changed = change_of(directory);
    struct timespec now;
    clock_gettime(CLOCK_REALTIME_COARSE, &now);
    return changed + RACY < (uint64_t)now.tv_sec * NS + (uint64_t)now.tv_nsec ? changed : 0;
}

static uint64_t recall(const uint64_t *bare) {
    return __atomic_load_n(bare, __ATOMIC_RELAXED);
}

/* File systems whose time of change is the kernel's own; over a network or from a process it is what a peer says. */
static const long TRUE_TIMES[] = {EXT4_SUPER_MAGIC, XFS_SUPER_MAGIC, BTRFS_SUPER_MAGIC,    F2FS_SUPER_MAGIC,
                                  TMPFS_MAGIC,      ZFS_SUPER_MAGIC, OVERLAYFS_SUPER_MAGIC};

static int has_true_times(int statfs_error, const struct statfs *of) {
    size_t i;
    for (i = 0; !statfs_error && i < sizeof TRUE_TIMES / sizeof *TRUE_TIMES; i++)
        if ((long)of->f_type == TRUE_TIMES[i]) return 1;
    return 0;
}

/* Several threads may store at once: each value was true of its directory when it was read. */
static void remember(uint64_t *bare, uint64_t changed) {
    __atomic_store_n(bare, changed, __ATOMIC_RELAXED);
}

/* Whether the directory is looked at for the second time; a caller that looks once only would not gain by more calls.
 */
static int is_second(uint64_t *bare, uint64_t changed) {
    const uint64_t before = recall(bare);
    if (changed && !before) remember(bare, ONCE);
    return changed && before;
}

static void remember_of(struct psb_seen *directory, uint64_t changed) {
    struct statfs of;
    if (is_second(&directory->bare, changed) && has_true_times(statfs(directory->path, &of), &of))
        remember(&directory->bare, changed);
}

int psb_still_there(struct psb_seen *seen, size_t count) {
    size_t i, directory = 0;
    uint64_t changed = 0;
    int skip = 0;
    for (i = 0; i < count; i++) {
        struct stat now;
        int there;
        if (seen[i].within && skip) continue;
        there = fstatat(AT_FDCWD, seen[i].path, &now, seen[i].direct ? AT_SYMLINK_NOFOLLOW : 0) == 0;
        if (there && seen[i].direct && S_ISLNK(now.st_mode)) return 0; /* it may have got the inode's number */
        if (there != (seen[i].ino != 0)) return 0;
        if (there && (now.st_ino != seen[i].ino || now.st_dev != seen[i].dev)) return 0;
        if (seen[i].within) {
            if (i + 1 == count || !seen[i + 1].within) remember_of(&seen[directory], changed);
            continue;
        }
        directory = i;
        changed = there && i + 1 < count && seen[i + 1].within ? settled(&now) : 0;
        skip = changed && changed == recall(&seen[i].bare);
    }
    return 1;
}

/* Whether a tree has nothing at the first component of a name. */
static int lacks_first(int tree, const char *name) {
    const size_t size = strcspn(name, "/");
    char first[NAME_MAX + 1];
    struct stat now;
    if (size >= sizeof first) return 0;
    memcpy(first, name, size);
    first[size] = 0;
    return fstatat(tree, first, &now, AT_SYMLINK_NOFOLLOW) && errno == ENOENT;
}

/* What a component of a name is, no link followed: 1 a link, 0 something else, or -1. `changed`: the latest of the
 * times at which it, or one before, was changed. */
static int see_component(int tree, const char *name, size_t size, uint64_t *changed) {
    char path[PATH_MAX];
    struct stat now;
    int fd, result;
    if (size >= sizeof path) return -1;
    memcpy(path, name, size);
    path[size] = 0;
    fd = psb_open_inside(tree, path, O_PATH | O_NOFOLLOW, 0, RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS);
    result = fd >= 0 ? fstat(fd, &now) : -1;
    if (fd >= 0) close(fd);
    if (result) return -1;
    if (change_of(&now) > *changed) *changed = change_of(&now);
    return S_ISLNK(now.st_mode);
}

/* Whether what is in the way of a name, a link or a directory that nobody may search, was put there after `since`. */
static int is_way_new(int tree, const char *name, uint64_t since) {
    uint64_t changed = 0;
    struct statfs of;
    size_t size = 0;
    do {
        size += strcspn(name + size, "/");
        if (see_component(tree, name, size, &changed)) break;
    } while (name[size++]);
    return changed + COARSE >= since || !has_true_times(fstatfs(tree, &of), &of);
}

/* Whether there is something now at a name that was not there, and whose first component is. What is no link, reached
 * by none, is. A link, or what cannot be examined, counts where it is new: a cage may have made it so. Through links
 * that are older the name is looked for: where they lead there was nothing either. */
static int is_there(int tree, const char *name, uint64_t since) {
    int fd = psb_open_inside(tree, name, O_PATH | O_NOFOLLOW, 0, RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS);
    struct stat now;
    int found = fd >= 0 && !fstat(fd, &now) && !S_ISLNK(now.st_mode);
    if (fd >= 0) close(fd);
    if (found || fd == -ENOENT || fd == -ENOTDIR) return found;
    if (fd < 0 && fd != -ELOOP && fd != -EACCES && fd != -EXDEV) return 1; /* for want of something: it may be there */
    if (is_way_new(tree, name, since)) return 1;
    fd = psb_open_inside(tree, name, O_PATH, 0, RESOLVE_NO_MAGICLINKS);
    if (fd >= 0) close(fd);
    return fd >= 0;
}

/* The tree as it was reached without symlinks, or -1; and the time of change that speaks for it. */
static int open_tree(const char *path, uint64_t *changed) {
    const int tree = psb_open_inside(AT_FDCWD, path, O_PATH | O_DIRECTORY, 0, RESOLVE_NO_SYMLINKS);
    struct stat now;
    *changed = tree >= 0 && !fstat(tree, &now) ? settled(&now) : 0;
    return tree;
}

/* Those of one tree: from `first` to the end that is returned. What the tree lacked when it was last changed is not
 * asked for again. */
static size_t look_in(struct psb_absent *absent, size_t first, size_t count, uint64_t since, uint8_t *there,
                      size_t *found) {
    uint64_t changed;
    const int tree = open_tree(absent[first].tree, &changed);
    int speaks = -1; /* whether its time of change does, once that is asked */
    struct statfs of;
    size_t i;
    for (i = first; i < count && !strcmp(absent[i].tree, absent[first].tree); i++) {
        there[i] = 0;
        if (tree < 0 || (changed && changed == recall(&absent[i].bare))) continue;
        if (!lacks_first(tree, absent[i].name)) {
            there[i] = (uint8_t)is_there(tree, absent[i].name, since);
            *found += there[i];
        } else if (is_second(&absent[i].bare, changed)) {
            if (speaks < 0) speaks = has_true_times(fstatfs(tree, &of), &of);
            if (speaks) remember(&absent[i].bare, changed);
        }
    }
    if (tree >= 0) close(tree);
    return i;
}

size_t psb_appeared(struct psb_absent *absent, size_t count, uint64_t since, uint8_t *there) {
    size_t i = 0, found = 0;
    while (i < count) i = look_in(absent, i, count, since, there, &found);
    return found;
}
