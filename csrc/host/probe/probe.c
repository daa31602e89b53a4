/* Kernel probes: each tries one feature and says how that went. START HERE: the table `probes` near the end.
 *
 * What would change the caller is tried in a short-lived child of its own (../spawn/vfork_child.c): raw system calls on
 * what was prepared before. Nothing in this file decides what a missing feature means. */
#include "probe.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "../../sys.h"
#include "../spawn/clone3.h"
#include "../spawn/vfork_child.h"

enum {
    RECURSIVE = 0x8000,                 /* AT_RECURSIVE */
    ATTR_LOCKED_DOWN = 0x1 | 0x2 | 0x4, /* MOUNT_ATTR_RDONLY | NOSUID | NODEV */
    LISTENER = 1 << 3,                  /* SECCOMP_FILTER_FLAG_NEW_LISTENER */
    KILLABLE = 1 << 5,                  /* SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV */
    SYNC_WAKE_UP = 1,                   /* SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP */
    CLOEXEC_RANGE = 1 << 2,             /* CLOSE_RANGE_CLOEXEC */
    LANDLOCK_VERSION = 1 << 0,
    LANDLOCK_ERRATA = 1 << 1,
};

struct mount_attributes { /* struct mount_attr; <sys/mount.h> and <linux/mount.h> cannot both be included */
    uint64_t set, clear, propagation, userns_fd;
};

struct attempt {
    int (*try)(const struct attempt *); /* runs in the child; 0 or errno */
    char uid_map[32], gid_map[32];
    int error;
};

/* A kernel return value as an errno, 0 for success. */
static int outcome(long result) {
    return result < 0 ? (int)-result : 0;
}

/* ---- in the child: namespaces and mounts ---------------------------------------------------------------- */

static int nothing_more(const struct attempt *self) {
    (void)self;
    return 0;
}

static int put(const char *path, const char *text) {
    const long file = sys_open(path, O_WRONLY | O_CLOEXEC, 0);
    long written;
    if (file < 0) return outcome(file);
    written = sys_write((int)file, text, text_length(text));
    sys_close((int)file);
    return outcome(written);
}

/* A user namespace without a map is of no use: some hosts allow the first and refuse the second. */
static int map_ids(const struct attempt *self) {
    int error = put("/proc/self/setgroups", "deny"); /* user_namespaces(7): before gid_map when unprivileged */
    if (!error) error = put("/proc/self/uid_map", self->uid_map);
    return error ? error : put("/proc/self/gid_map", self->gid_map);
}

static int mount_here(const char *type, const char *target, const char *data) {
    return outcome(sys_call(SYS_mount, type, target, type, MS_NOSUID | MS_NODEV, data, 0));
}

static int mount_proc(const struct attempt *self) {
    const int error = map_ids(self);
    return error ? error : mount_here("proc", "/proc", NULL);
}

static int seal_mounts(const struct attempt *self) {
    struct mount_attributes attributes = {.set = ATTR_LOCKED_DOWN};
    const int error = map_ids(self);
    if (error) return error;
    return outcome(sys_call(SYS_mount_setattr, AT_FDCWD, "/", RECURSIVE, &attributes, sizeof attributes, 0));
}

static int everything(const struct attempt *self) {
    const int error = seal_mounts(self);
    return error ? error : mount_here("proc", "/proc", NULL);
}

/* /proc is the one directory that is certain to exist, the maps having been written through it. */
static int mount_tmpfs(const struct attempt *self) {
    const int error = map_ids(self);
    return error ? error : mount_here("tmpfs", "/proc", "mode=0700,size=64k");
}

static int tmpfs_xattr(const struct attempt *self) {
    const int error = mount_tmpfs(self);
    return error ? error : outcome(sys_call(SYS_setxattr, "/proc", "user.pysandbox", "y", 1, 0, 0));
}

static int mount_overlay(const struct attempt *self) {
    static const char *const directories[] = {"/proc/lower", "/proc/upper", "/proc/work", "/proc/merged"};
    int error = mount_tmpfs(self);
    size_t at;
    for (at = 0; !error && at < sizeof directories / sizeof *directories; at++)
        error = outcome(sys_call(SYS_mkdirat, AT_FDCWD, directories[at], 0700, 0, 0, 0));
    if (error) return error;
    return mount_here("overlay", "/proc/merged",
                      "lowerdir=/proc/lower,upperdir=/proc/upper,workdir=/proc/work,userxattr");
}

static int mount_binfmt_misc(const struct attempt *self) {
    const int error = map_ids(self);
    return error ? error : mount_here("binfmt_misc", "/proc", NULL);
}

/* ---- in the child: seccomp ------------------------------------------------------------------------------ */

/* Installs "allow everything": 0 (with LISTENER, a descriptor), or -errno. */
static long allow_everything(unsigned flags) {
    static struct sock_filter allow[] = {BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
    static const struct sock_fprog program = {.len = 1, .filter = allow};
    const long result = sys_call(SYS_prctl, PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0, 0);
    return result < 0 ? result : sys_call(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &program, 0, 0, 0);
}

static int install_filter(const struct attempt *self) {
    (void)self;
    return outcome(allow_everything(0));
}

/* One listener per filter chain: below another supervisor this is EBUSY, however new the kernel. */
static int install_listener(const struct attempt *self) {
    (void)self;
    return outcome(allow_everything(LISTENER)); /* the listener goes with the child */
}

static int notif_addfd(const struct attempt *self) {
    const unsigned long addfd = _IOC(_IOC_WRITE, '!', 3, 24); /* SECCOMP_IOCTL_NOTIF_ADDFD */
    const long listener = allow_everything(LISTENER);
    long result;
    (void)self;
    if (listener < 0) return outcome(listener);
    result = sys_call(SYS_ioctl, listener, addfd, NULL, 0, 0, 0);
    return result == -EFAULT ? 0 : outcome(result); /* it looked at the pointer, so it knows the request */
}

static int sync_wake_up(const struct attempt *self) {
    const unsigned long set_flags = _IOC(_IOC_WRITE, '!', 4, 8); /* SECCOMP_IOCTL_NOTIF_SET_FLAGS */
    const long listener = allow_everything(LISTENER);
    (void)self;
    if (listener < 0) return outcome(listener);
    return outcome(sys_call(SYS_ioctl, listener, set_flags, SYNC_WAKE_UP, 0, 0, 0));
}

/* ---- in place: calls that change nothing ---------------------------------------------------------------- */

static int wait_killable(void) {
    /* Unknown flags are refused (EINVAL) before the program is read (EFAULT). */
    const long result = sys_call(SYS_seccomp, SECCOMP_SET_MODE_FILTER, LISTENER | KILLABLE, NULL, 0, 0, 0);
    return result == -EFAULT ? 0 : outcome(result);
}

static int open_pidfd(unsigned flags) {
    const long descriptor = sys_call(SYS_pidfd_open, getpid(), flags, 0, 0, 0, 0);
    if (descriptor >= 0) sys_close((int)descriptor);
    return outcome(descriptor);
}

static int pidfd(void) {
    return open_pidfd(0);
}

static int pidfd_thread(void) {
    return open_pidfd(O_EXCL); /* PIDFD_THREAD */
}

static int born_in_cgroup(void) {
    /* No process can come of it: the exit signal is not one. A kernel that has never heard of `cgroup` stumbles
     * over that field first (E2BIG); one that lacks clone3, or a filter that hides it, says ENOSYS. */
    const struct clone_arguments arguments = {.exit_signal = UINT64_MAX, .cgroup = 1};
    const long result = sys_call(SYS_clone3, &arguments, sizeof arguments, 0, 0, 0, 0);
    return result == -EINVAL ? 0 : outcome(result);
}

static int close_range_cloexec(void) {
    return outcome(sys_call(SYS_close_range, ~0U, ~0U, CLOEXEC_RANGE, 0, 0, 0));
}

/* ---- the table ------------------------------------------------------------------------------------------ */

static const struct {
    int namespaces; /* the child is cloned into these */
    int (*in_child)(const struct attempt *);
    int (*in_place)(void);
} probes[] = {
    [PSB_PROBE_FULL] = {CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNS | CLONE_NEWIPC | CLONE_NEWUTS | CLONE_NEWCGROUP |
                            CLONE_NEWNET,
                        everything, NULL},
    [PSB_PROBE_USER_NS] = {CLONE_NEWUSER, map_ids, NULL},
    [PSB_PROBE_PID_NS] = {CLONE_NEWUSER | CLONE_NEWPID, nothing_more, NULL},
    [PSB_PROBE_MOUNT_NS] = {CLONE_NEWUSER | CLONE_NEWNS, nothing_more, NULL},
    [PSB_PROBE_NET_NS] = {CLONE_NEWUSER | CLONE_NEWNET, nothing_more, NULL},
    [PSB_PROBE_IPC_NS] = {CLONE_NEWUSER | CLONE_NEWIPC, nothing_more, NULL},
    [PSB_PROBE_UTS_NS] = {CLONE_NEWUSER | CLONE_NEWUTS, nothing_more, NULL},
    [PSB_PROBE_CGROUP_NS] = {CLONE_NEWUSER | CLONE_NEWCGROUP, nothing_more, NULL},
    [PSB_PROBE_PROC] = {CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNS, mount_proc, NULL},
    [PSB_PROBE_MOUNT_SETATTR] = {CLONE_NEWUSER | CLONE_NEWNS, seal_mounts, NULL},
    [PSB_PROBE_TMPFS] = {CLONE_NEWUSER | CLONE_NEWNS, mount_tmpfs, NULL},
    [PSB_PROBE_TMPFS_XATTR] = {CLONE_NEWUSER | CLONE_NEWNS, tmpfs_xattr, NULL},
    [PSB_PROBE_OVERLAY] = {CLONE_NEWUSER | CLONE_NEWNS, mount_overlay, NULL},
    [PSB_PROBE_BINFMT_MISC] = {CLONE_NEWUSER | CLONE_NEWNS, mount_binfmt_misc, NULL},
    [PSB_PROBE_SECCOMP_FILTER] = {0, install_filter, NULL},
    [PSB_PROBE_USER_NOTIF] = {0, install_listener, NULL},
    [PSB_PROBE_NOTIF_ADDFD] = {0, notif_addfd, NULL},
    [PSB_PROBE_SYNC_WAKE_UP] = {0, sync_wake_up, NULL},
    [PSB_PROBE_WAIT_KILLABLE] = {0, NULL, wait_killable},
    [PSB_PROBE_PIDFD] = {0, NULL, pidfd},
    [PSB_PROBE_PIDFD_THREAD] = {0, NULL, pidfd_thread},
    [PSB_PROBE_CLONE_INTO_CGROUP] = {0, NULL, born_in_cgroup},
    [PSB_PROBE_CLOSE_RANGE] = {0, NULL, close_range_cloexec},
};
_Static_assert(sizeof probes / sizeof *probes == PSB_PROBE_COUNT, "a row for every probe");

/* ---- in the parent -------------------------------------------------------------------------------------- */

static void run_attempt(void *argument) {
    struct attempt *self = argument;
    self->error = self->try(self);
}

static int try_in_child(int namespaces, int (*try)(const struct attempt *)) {
    struct attempt attempt = {.try = try, .error = EPERM}; /* what stays when something kills the child */
    int result;
    snprintf(attempt.uid_map, sizeof attempt.uid_map, "65534 %u 1", (unsigned)geteuid());
    snprintf(attempt.gid_map, sizeof attempt.gid_map, "65534 %u 1", (unsigned)getegid());
    result = run_in_vfork_child(namespaces, run_attempt, &attempt);
    return result < 0 ? -result : attempt.error;
}

int psb_probe(int name) {
    const int saved = errno;
    int error;
    if (name < 0 || name >= PSB_PROBE_COUNT) return EINVAL;
    error =
        probes[name].in_place ? probes[name].in_place() : try_in_child(probes[name].namespaces, probes[name].in_child);
    errno = saved;
    return error;
}

static int ask_landlock(unsigned flags) {
    return (int)sys_call(SYS_landlock_create_ruleset, NULL, 0, flags, 0, 0, 0);
}

int psb_landlock_abi(void) {
    return ask_landlock(LANDLOCK_VERSION);
}

int psb_landlock_errata(void) {
    return ask_landlock(LANDLOCK_ERRATA);
}
