/* Copy-on-write trees: an overlay (overlayfs) of a tree of the host, read-only below, and a layer above it, in memory
 * or on disk.
 *
 * All that is written to such trees lies on one tmpfs, whose size is the quota of bytes and of inodes; or in one
 * directory of the host's, which the host has made for this cage. It is mounted where only these steps reach it; each
 * overlay is made of descriptors, named as /proc/self/fd/N, so that its options in mountinfo tell no path; and at the
 * end the host gets a descriptor of the place, which is then detached: the overlays live on, and no path of the cage
 * leads there. The descriptor is sent now, while there is no filter yet and nothing of the cage has run.
 *
 * userxattr: the overlay's own marks are user.overlay.*, as the others are not ours to set. volatile: nothing waits for
 * a disk, since what a crash leaves is dropped. xino=off: the inode numbers of the lower tree, which fit into 63 bits.
 */
#include "../message.h"
#include "../uapi.h"
#include "mounts.h"

#define UPPER "/.upper"
#define OPTIONS ",userxattr,xino=off,index=off,volatile"

/* The directory of the host's, still what the host has made, at its place. `tree`: as in make_overlay. */
static int bind_upper(const struct psb_mount *mount, int tree, const char *place, struct psb_error *error) {
    struct object source = {-1, 0};
    char from[40];
    long result;
    int is_directory = 0;
    if (tree != NO_TREE) {
        result = tree < 0 ? tree : check_inode(tree, mount->dev, mount->ino, &is_directory);
        if (result >= 0) result = sys_call(SYS_move_mount, tree, "", AT_FDCWD, place, MOVE_MOUNT_F_EMPTY_PATH, 0);
        return result < 0 ? fail(error, PSB_STEP_UPPER, result, mount->source) : 0;
    }
    if (open_source(mount, mount->source, &source, error)) {
        if (source.fd >= 0) sys_close((int)source.fd);
        return -1;
    }
    fd_path(from, source.fd);
    result = sys_call(SYS_mount, from, place, NULL, MS_BIND, NULL, 0);
    sys_close((int)source.fd);
    return result < 0 ? fail(error, PSB_STEP_UPPER, result, mount->source) : 0;
}

int make_upper(const struct psb_mount *mount, int tree, const char *staging, struct psb_error *error) {
    struct path path;
    long result;
    if (join_path(&path, staging, UPPER)) return fail(error, PSB_STEP_UPPER, -ENAMETOOLONG, staging);
    result = sys_call(SYS_mkdirat, AT_FDCWD, path.text, 0700, 0, 0, 0);
    if (result < 0) return fail(error, PSB_STEP_UPPER, result, UPPER);
    if (mount->source[0]) return bind_upper(mount, tree, path.text, error);
    result = sys_call(SYS_mount, "tmpfs", path.text, "tmpfs", MS_NOSUID | MS_NODEV, mount->data, 0);
    return result < 0 ? fail(error, PSB_STEP_UPPER, result, mount->data) : 0;
}

static long open_directory(int at, const char *name, int flags) {
    return sys_call(SYS_openat, at, name, flags | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW, 0, 0, 0);
}

static long make_and_open(int at, const char *name) {
    const long result = sys_call(SYS_mkdirat, at, name, 0700, 0, 0, 0);
    return result < 0 ? result : open_directory(at, name, O_RDONLY);
}

/* The three layers of one overlay; each -1 until it is open. */
struct layers {
    long lower, upper, work;
};

static void close_layers(const struct layers *layers) {
    if (layers->lower >= 0) sys_close((int)layers->lower);
    if (layers->upper >= 0) sys_close((int)layers->upper);
    if (layers->work >= 0) sys_close((int)layers->work);
}

/* The root of an overlay has the attributes of its upper layer: they are the tree's own, as far as the ids of the cage
 * go. */
static long look_like(long upper, long lower) {
    char here[40];
    struct statx facts;
    struct timespec64 {
        int64_t seconds, nanoseconds;
    } times[2];
    long result = sys_call(SYS_statx, lower, "", AT_EMPTY_PATH, STATX_BASIC_STATS, &facts, 0);
    if (result < 0) return result;
    fd_path(here, upper);
    sys_call(SYS_fchownat, AT_FDCWD, here, facts.stx_uid, facts.stx_gid, 0, 0); /* an id that has no name here: ours */
    result = sys_call(SYS_fchmod, upper, facts.stx_mode & 07777, 0, 0, 0, 0);
    times[0].seconds = facts.stx_atime.tv_sec;
    times[0].nanoseconds = facts.stx_atime.tv_nsec;
    times[1].seconds = facts.stx_mtime.tv_sec;
    times[1].nanoseconds = facts.stx_mtime.tv_nsec;
    if (result >= 0) result = sys_call(SYS_utimensat, upper, NULL, times, 0, 0, 0);
    return result;
}

static long make_layers(const struct psb_mount *mount, const char *staging, struct layers *layers) {
    struct path path;
    long top, own;
    if (join_path(&path, staging, UPPER)) return -ENAMETOOLONG;
    top = open_directory(AT_FDCWD, path.text, O_PATH);
    if (top < 0) return top;
    own = make_and_open((int)top, mount->data);
    sys_close((int)top);
    if (own < 0) return own;
    layers->upper = make_and_open((int)own, "upper");
    layers->work = make_and_open((int)own, "work");
    sys_close((int)own);
    if (layers->upper < 0) return layers->upper;
    return layers->work < 0 ? layers->work : look_like(layers->upper, layers->lower);
}

static size_t put_layer(char *options, size_t at, const char *name, long fd) {
    at += text_copy(options + at, 32, name);
    fd_path(options + at, fd);
    return at + text_length(options + at);
}

static int mount_layers(const struct psb_mount *mount, const struct layers *layers, const char *staging,
                        struct psb_error *error) {
    char options[256];
    const struct psb_mount overlay = {.flags = mount->flags,
                                      .mode = mount->mode,
                                      .attrs = mount->attrs,
                                      .source = mount->source,
                                      .target = mount->target,
                                      .data = options};
    size_t at = put_layer(options, 0, "lowerdir=", layers->lower);
    at = put_layer(options, at, ",upperdir=", layers->upper);
    at = put_layer(options, at, ",workdir=", layers->work);
    text_copy(options + at, sizeof options - at, OPTIONS);
    return mount_at(&overlay, staging, "overlay", "overlay", MS_NOSUID | MS_NODEV, 1, PSB_STEP_OVERLAY, error);
}

/* An overlay is made of what is mounted: the tree that the host has taken is, for as long as that takes. */
static long attach(int tree, const char *staging, struct path *path) {
    long result;
    if (join_path(path, staging, UPPER "/lower")) return -ENAMETOOLONG;
    result = sys_call(SYS_mkdirat, AT_FDCWD, path->text, 0700, 0, 0, 0);
    if (result < 0) return result;
    return sys_call(SYS_move_mount, tree, "", AT_FDCWD, path->text, MOVE_MOUNT_F_EMPTY_PATH, 0);
}

static long detach(const struct path *path) {
    const long result = sys_call(SYS_umount2, path->text, MNT_DETACH, 0, 0, 0, 0);
    return result < 0 ? result : sys_call(SYS_unlinkat, AT_FDCWD, path->text, AT_REMOVEDIR, 0, 0, 0);
}

static int overlay_of(const struct psb_mount *mount, struct layers *layers, const char *staging,
                      struct psb_error *error) {
    const long result = make_layers(mount, staging, layers);
    int outcome =
        result < 0 ? fail(error, PSB_STEP_UPPER, result, mount->target) : mount_layers(mount, layers, staging, error);
    close_layers(layers);
    return outcome;
}

static int overlay_of_tree(const struct psb_mount *mount, int tree, const char *staging, struct psb_error *error) {
    struct layers layers = {-1, -1, -1};
    struct path path;
    int is_directory = 0, outcome;
    long result = tree < 0 ? tree : check_inode(tree, mount->dev, mount->ino, &is_directory);
    if (result < 0)
        return fail(error, result == -ESTALE ? PSB_STEP_SOURCE_CHANGED : PSB_STEP_SOURCE, result, mount->source);
    result = attach(tree, staging, &path);
    if (result < 0) return fail(error, PSB_STEP_OVERLAY, result, mount->source);
    layers.lower = open_directory(AT_FDCWD, path.text, O_PATH);
    outcome = layers.lower < 0 ? fail(error, PSB_STEP_OVERLAY, layers.lower, mount->source)
                               : overlay_of(mount, &layers, staging, error);
    result = detach(&path);
    return !outcome && result < 0 ? fail(error, PSB_STEP_OVERLAY, result, mount->source) : outcome;
}

int make_overlay(const struct psb_mount *mount, int tree, const char *staging, struct psb_error *error) {
    struct layers layers = {-1, -1, -1};
    struct object source = {-1, 0};
    if (tree != NO_TREE) return overlay_of_tree(mount, tree, staging, error);
    if (open_source(mount, mount->source, &source, error)) {
        if (source.fd >= 0) sys_close((int)source.fd);
        return -1;
    }
    layers.lower = source.fd;
    return overlay_of(mount, &layers, staging, error);
}

/* What sendmsg(2) takes beside a message: one descriptor, padded to eight bytes. */
struct one_descriptor {
    size_t size;
    int32_t level, type;
    int32_t fd, pad;
};

static long send_upper(int control, long upper) {
    uint32_t kind = PSB_MESSAGE_UPPER;
    struct one_descriptor right = {sizeof right - sizeof right.pad, SOL_SOCKET, SCM_RIGHTS, (int32_t)upper, 0};
    struct io_vector vector = {&kind, sizeof kind};
    const struct message_header header = {0, 0, &vector, 1, &right, sizeof right, 0};
    return sys_call(SYS_sendmsg, control, &header, 0, 0, 0, 0);
}

int give_upper(const struct psb_launch *launch, struct psb_error *error) {
    struct path path;
    long upper, result;
    if (join_path(&path, launch->plan->staging, UPPER)) return fail(error, PSB_STEP_UPPER, -ENAMETOOLONG, UPPER);
    upper = open_directory(AT_FDCWD, path.text, O_RDONLY);
    if (upper < 0) return fail(error, PSB_STEP_UPPER, upper, UPPER);
    result = send_upper(launch->control_fd, upper);
    sys_close((int)upper);
    if (result >= 0) result = detach(&path);
    return result < 0 ? fail(error, PSB_STEP_UPPER, result, UPPER) : 0;
}
