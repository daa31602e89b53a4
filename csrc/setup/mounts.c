/* One step of the mount plan. Everything happens below `staging`, which becomes the cage's root.
 *
 * Two rules keep hostile trees harmless. A source of the host is opened without following any symlink and must still be
 * the inode that was looked at (PSB_VERIFY); what goes without is in the table `constants`, and nothing else is. A
 * target inside a bound tree is opened, inside the staging root, without following any symlink (PSB_INSIDE_BIND): a
 * mask can therefore never be led onto something else. Both are then reached through /proc/self/fd, which names the
 * very object that was checked. A directory that is pinned is its own source: no path of the host is walked for it.
 * Where root starts the cage, the host has taken each source as a mount of its own (host/spawn/passage.c): that is
 * looked at in the same way, and moved to its place. */
#include <linux/utsname.h>

#include "../uapi.h"
#include "mounts.h"

int join_path(struct path *path, const char *staging, const char *inside) {
    size_t n = text_copy(path->text, sizeof path->text, staging);
    size_t want = text_length(inside);
    if (n + want + 1 > sizeof path->text) return -1;
    text_copy(path->text + n, sizeof path->text - n, inside);
    return 0;
}

void fd_path(char *text, long fd) {
    size_t n = text_copy(text, 40, "/proc/self/fd/");
    text_number(text + n, (unsigned long)fd);
}

static long open_no_symlinks(int root, const char *path, uint64_t resolve) {
    struct open_how how = {.flags = O_PATH | O_CLOEXEC, .mode = 0, .resolve = resolve | RESOLVE_NO_SYMLINKS};
    return sys_call(SYS_openat2, root, path, &how, sizeof how, 0, 0);
}

/* mkdir -p of everything above the last component, on our own tmpfs. Existing directories are fine. */
static int make_parents(struct path *path, size_t from, struct psb_error *error) {
    size_t i;
    for (i = from + 1; path->text[i]; i++) {
        long result;
        if (path->text[i] != '/') continue;
        path->text[i] = 0;
        result = sys_call(SYS_mkdirat, AT_FDCWD, path->text, 0755, 0, 0, 0);
        path->text[i] = '/';
        if (result < 0 && result != -EEXIST) return fail(error, PSB_STEP_MKDIR, result, path->text + from);
    }
    return 0;
}

/* Most parents are there, made for what was before: they are made where the kernel misses one. */
static int make_directory(struct path *path, size_t from, uint32_t mode, struct psb_error *error) {
    long result = sys_call(SYS_mkdirat, AT_FDCWD, path->text, mode, 0, 0, 0);
    if (result == -ENOENT) {
        if (make_parents(path, from, error)) return -1;
        result = sys_call(SYS_mkdirat, AT_FDCWD, path->text, mode, 0, 0, 0);
    }
    if (result < 0 && result != -EEXIST) return fail(error, PSB_STEP_MKDIR, result, path->text + from);
    return 0;
}

/* What the kernel has by now, since the name comes before the mounts (setup.c). */
static long write_hostname(int fd) {
    struct new_utsname names;
    size_t size;
    const long result = sys_call(SYS_uname, &names, 0, 0, 0, 0, 0);
    if (result < 0) return result;
    size = text_length(names.nodename);
    names.nodename[size] = '\n';
    return sys_write(fd, names.nodename, size + 1);
}

static int make_file(struct path *path, size_t from, const char *content, uint32_t mode, int named,
                     struct psb_error *error) {
    const int flags = O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW;
    long fd = sys_open(path->text, flags, (int)mode), written;
    if (fd == -ENOENT) {
        if (make_parents(path, from, error)) return -1;
        fd = sys_open(path->text, flags, (int)mode);
    }
    if (fd < 0) return fail(error, PSB_STEP_FILE, fd, path->text + from);
    written = sys_write((int)fd, content, text_length(content));
    if (named && written >= 0) written = write_hostname((int)fd);
    sys_close((int)fd);
    return written < 0 ? fail(error, PSB_STEP_FILE, written, path->text + from) : 0;
}

static int make_symlink(struct path *path, size_t from, const char *to, struct psb_error *error) {
    long result = sys_call(SYS_symlinkat, to, AT_FDCWD, path->text, 0, 0, 0);
    if (result == -ENOENT) {
        if (make_parents(path, from, error)) return -1;
        result = sys_call(SYS_symlinkat, to, AT_FDCWD, path->text, 0, 0, 0);
    }
    if (result < 0 && result != -EEXIST) return fail(error, PSB_STEP_SYMLINK, result, path->text + from);
    return 0;
}

/* Files of the host that every cage is given, looked at or not. No user can replace one. */
static const char *const constants[] = {"/dev/null", "/dev/zero", "/dev/random", "/dev/urandom", "/dev/tty"};

static int is_constant(const char *path) {
    size_t i, at;
    for (i = 0; i < sizeof constants / sizeof *constants; i++) {
        for (at = 0; constants[i][at] && constants[i][at] == path[at]; at++) continue;
        if (constants[i][at] == path[at]) return 1;
    }
    return 0;
}

/* What was the right inode and lost its name before the mount cannot be mounted: ENOENT. It was replaced, then. -1. */
static int blame_source(const struct psb_mount *mount, long source, struct psb_error *error) {
    if (error->step != PSB_STEP_BIND || error->number != ENOENT || !is_unlinked(source)) return -1;
    return fail(error, PSB_STEP_SOURCE_CHANGED, -ESTALE, mount->source);
}

int open_source(const struct psb_mount *mount, const char *path, struct object *source, struct psb_error *error) {
    const int verify = (mount->flags & PSB_VERIFY) != 0;
    long result;
    if (!verify && !is_constant(path)) return fail(error, PSB_STEP_SOURCE_CHANGED, -ESTALE, path);
    source->fd = verify ? open_no_symlinks(AT_FDCWD, path, 0) : sys_open(path, O_PATH | O_CLOEXEC, 0);
    if (source->fd < 0) return fail(error, PSB_STEP_SOURCE, source->fd, path);
    result = check_inode(source->fd, mount->dev, verify ? mount->ino : 0, &source->is_directory);
    if (result == -ESTALE) return fail(error, PSB_STEP_SOURCE_CHANGED, result, path);
    return result < 0 ? fail(error, PSB_STEP_SOURCE, result, path) : 0;
}

/* The object at an inside path, found without following any symlink; -errno if it is not there. */
static long open_inside(const char *staging, const char *target) {
    long root = sys_open(staging, O_PATH | O_DIRECTORY | O_CLOEXEC, 0), fd;
    if (root < 0) return root;
    fd = open_no_symlinks((int)root, target, RESOLVE_IN_ROOT);
    sys_close((int)root);
    return fd;
}

/* Sets attributes on the mount at the target and everything mounted below it. A target that is not a mount (swapped
 * by a rename meanwhile) is EINVAL, never a wider or narrower mount than meant. */
static int seal(const char *staging, const char *target, uint32_t attrs, struct psb_error *error) {
    struct mount_attr attr = {.attr_set = attrs};
    long result, fd = open_inside(staging, target);
    if (fd < 0) return fail(error, PSB_STEP_PROTECT, fd, target);
    result = sys_call(SYS_mount_setattr, fd, "", AT_EMPTY_PATH | AT_RECURSIVE, &attr, sizeof attr, 0);
    sys_close((int)fd);
    return result < 0 ? fail(error, PSB_STEP_PROTECT, result, target) : 0;
}

/* The place to mount on, as a path: made on our tmpfs, or found (never made, never through a symlink) in a bound tree.
 * *fd stays open while the path is used; -1 if none is needed. */
static int open_target(const struct psb_mount *mount, const char *staging, int directory, struct path *path, long *fd,
                       struct psb_error *error) {
    size_t from = text_length(staging);
    *fd = -1;
    if (mount->flags & PSB_INSIDE_BIND) {
        *fd = open_inside(staging, mount->target);
        if (*fd < 0) return fail(error, PSB_STEP_TARGET, *fd, mount->target);
        fd_path(path->text, *fd);
        return 0;
    }
    if (join_path(path, staging, mount->target)) return fail(error, PSB_STEP_TARGET, -ENAMETOOLONG, mount->target);
    return directory ? make_directory(path, from, mount->mode, error) : make_file(path, from, "", 0644, 0, error);
}

int mount_at(const struct psb_mount *mount, const char *staging, const char *source, const char *type,
             unsigned long flags, int directory, enum psb_step step, struct psb_error *error) {
    struct path path;
    long target, result;
    if (open_target(mount, staging, directory, &path, &target, error)) return -1;
    result = sys_call(SYS_mount, source, path.text, type, flags, mount->data, 0);
    if (target >= 0) sys_close((int)target);
    if (result < 0) return fail(error, step, result, mount->target);
    return mount->attrs ? seal(staging, mount->target, mount->attrs, error) : 0;
}

/* The mount that the host has taken of the source, when it is of what was looked at. */
static int move_in(const struct psb_mount *mount, int tree, const char *staging, struct psb_error *error) {
    struct path path;
    long result, target;
    int is_directory = 0;
    if (tree < 0) return fail(error, PSB_STEP_SOURCE, tree, mount->source);
    result = check_inode(tree, mount->dev, mount->ino, &is_directory);
    if (result < 0)
        return fail(error, result == -ESTALE ? PSB_STEP_SOURCE_CHANGED : PSB_STEP_SOURCE, result, mount->source);
    if (open_target(mount, staging, is_directory, &path, &target, error)) return -1;
    result =
        sys_call(SYS_move_mount, tree, "", AT_FDCWD, path.text, MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_SYMLINKS, 0);
    if (target >= 0) sys_close((int)target);
    if (result < 0) {
        fail(error, PSB_STEP_BIND, result, mount->target);
        return blame_source(mount, tree, error);
    }
    return mount->attrs ? seal(staging, mount->target, mount->attrs, error) : 0;
}

static int bind(const struct psb_mount *mount, int tree, const char *staging, struct psb_error *error) {
    struct object source = {-1, 0};
    char from[40];
    int outcome;
    if (tree != NO_TREE) return move_in(mount, tree, staging, error);
    outcome = open_source(mount, mount->source, &source, error);
    if (!outcome) {
        fd_path(from, source.fd);
        outcome = mount_at(mount, staging, from, NULL, MS_BIND | MS_REC, source.is_directory, PSB_STEP_BIND, error);
        if (outcome) outcome = blame_source(mount, source.fd, error);
    }
    if (source.fd >= 0) sys_close((int)source.fd);
    return outcome;
}

/* Binds what is at the target onto itself, by the one descriptor: from now on it is a mount of its own, which cannot be
 * renamed away. */
static int pin(const struct psb_mount *mount, const char *staging, struct psb_error *error) {
    char here[40];
    long result, fd = open_inside(staging, mount->target);
    if (fd < 0) return fail(error, PSB_STEP_TARGET, fd, mount->target);
    fd_path(here, fd);
    result = sys_call(SYS_mount, here, here, NULL, MS_BIND | MS_REC, NULL, 0);
    sys_close((int)fd);
    return result < 0 ? fail(error, PSB_STEP_BIND, result, mount->target) : 0;
}

static int is_directory(const char *path) {
    const long fd = sys_open(path, O_PATH | O_DIRECTORY | O_CLOEXEC, 0);
    if (fd >= 0) sys_close((int)fd);
    return fd >= 0;
}

/* Covers the target with a nameless object (cover.c). move_mount(2) has EINVAL for an object of the other kind, and for
 * much else: ENOTDIR, as mount(2) says, tells more. */
static int cover(const struct psb_mount *mount, const char *staging, int directory, uint32_t mode, enum psb_step step,
                 struct psb_error *error) {
    struct path path, object;
    const struct cover_place place = {AT_FDCWD, path.text, MOVE_MOUNT_T_SYMLINKS};
    long result, target;
    if (join_path(&object, staging, "/.cover")) return fail(error, step, -ENAMETOOLONG, mount->target);
    if (open_target(mount, staging, directory, &path, &target, error)) return -1;
    result = cover_with_new(object.text, directory, mode, &place);
    if (result == -EINVAL && is_directory(path.text) != directory) result = -ENOTDIR;
    if (target >= 0) sys_close((int)target);
    return result < 0 ? fail(error, step, result, mount->target) : 0;
}

/* The cage's own /dev/null over a file: reads end at once, writes vanish. */
static int mask_file(const struct psb_mount *mount, const char *staging, struct psb_error *error) {
    struct path null;
    if (join_path(&null, staging, "/dev/null")) return fail(error, PSB_STEP_MASK, -ENAMETOOLONG, mount->target);
    return mount_at(mount, staging, null.text, NULL, MS_BIND, 0, PSB_STEP_MASK, error);
}

static int is_root(const char *target) {
    return target[0] == '/' && !target[1];
}

static int make_tmpfs(const struct psb_mount *mount, const char *staging, struct psb_error *error) {
    long result;
    if (!is_root(mount->target)) return mount_at(mount, staging, "tmpfs", "tmpfs", 0, 1, PSB_STEP_TMPFS, error);
    result = sys_call(SYS_mount, "tmpfs", staging, "tmpfs", 0, mount->data, 0);
    return result < 0 ? fail(error, PSB_STEP_ROOT, result, staging) : 0;
}

static int unprotect_root(const char *staging, struct psb_error *error) {
    struct mount_attr attr = {.attr_clr = MOUNT_ATTR_RDONLY};
    long result = sys_call(SYS_mount_setattr, AT_FDCWD, staging, 0, &attr, sizeof attr, 0);
    return result < 0 ? fail(error, PSB_STEP_PROTECT, result, "/") : 0;
}

static int make(const struct psb_mount *mount, const char *staging, struct psb_error *error) {
    struct path path;
    size_t from = text_length(staging);
    if (join_path(&path, staging, mount->target)) return fail(error, PSB_STEP_TARGET, -ENAMETOOLONG, mount->target);
    if (mount->kind == PSB_MOUNT_DIR) return make_directory(&path, from, mount->mode, error);
    if (mount->kind == PSB_MOUNT_SYMLINK) return make_symlink(&path, from, mount->source, error);
    return make_file(&path, from, mount->data, mount->mode, mount->flags & PSB_NAMED, error);
}

static int dispatch(const struct psb_mount *mount, int tree, const char *staging, struct psb_error *error) {
    switch (mount->kind) {
    case PSB_MOUNT_DIR:
    case PSB_MOUNT_FILE:
    case PSB_MOUNT_SYMLINK: return make(mount, staging, error);
    case PSB_MOUNT_BIND: return bind(mount, tree, staging, error);
    case PSB_MOUNT_PIN: return pin(mount, staging, error);
    case PSB_MOUNT_TMPFS: return make_tmpfs(mount, staging, error);
    case PSB_MOUNT_PROC: return mount_at(mount, staging, "proc", "proc", 0, 1, PSB_STEP_PROC, error);
    case PSB_MOUNT_DEVPTS: return mount_at(mount, staging, "devpts", "devpts", 0, 1, PSB_STEP_DEVPTS, error);
    case PSB_MOUNT_MQUEUE: return mount_at(mount, staging, "mqueue", "mqueue", 0, 1, PSB_STEP_MQUEUE, error);
    case PSB_MOUNT_MASK_FILE: return mask_file(mount, staging, error);
    case PSB_MOUNT_MASK_DIR: return cover(mount, staging, 1, 0555, PSB_STEP_MASK, error);
    case PSB_MOUNT_DENY_FILE: return cover(mount, staging, 0, 0, PSB_STEP_DENY, error);
    case PSB_MOUNT_DENY_DIR: return cover(mount, staging, 1, 0, PSB_STEP_DENY, error);
    case PSB_MOUNT_PROTECT: return seal(staging, mount->target, mount->attrs, error);
    case PSB_MOUNT_UNPROTECT_ROOT: return unprotect_root(staging, error);
    }
    return fail(error, PSB_STEP_ROOT, -EINVAL, mount->target);
}

/* An optional step is skipped when what it is about is not there, or when it would have given something and that cannot
 * be had. A mask of what *is* there has failed, and so has a grant that lies inside another: it may be what keeps the
 * cage from writing. */
static int may_skip(const struct psb_mount *mount, const struct psb_error *error) {
    const int absent = error->number == ENOENT || error->number == ENOTDIR;
    if (!(mount->flags & PSB_OPTIONAL) || says_nothing_of_the_file(error->number)) return 0;
    if (error->step == PSB_STEP_MQUEUE) return 1;
    if (error->step == PSB_STEP_SOURCE) return absent || !(mount->flags & PSB_INSIDE_BIND);
    return error->step == PSB_STEP_TARGET && absent;
}

int carry_out_mount(const struct psb_mount *mount, int tree, const char *staging, struct psb_error *error) {
    if (!dispatch(mount, tree, staging, error)) return 0;
    if (!may_skip(mount, error)) return -1;
    error->step = PSB_STEP_NONE;
    return 0;
}
