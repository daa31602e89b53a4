/*
 * Kernel probes: each tries one feature and says how that went. START HERE: the table `probes` near the end.
 *
 * What would change the caller is tried in a throw-away child that shares the caller's memory and holds it up until
 * it is gone (CLONE_VM|CLONE_VFORK), so that the cost does not grow with the caller. After the clone: system calls
 * on what was prepared before it, nothing else. The child is never seen by the caller's own waits: it ends without a
 * signal and is reaped here. Nothing in this file decides what a missing feature means.
 */
#include "probe.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../sys.h" /* the numbers that older headers lack */

#ifndef CLONE_NEWCGROUP
#define CLONE_NEWCGROUP 0x02000000
#endif

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

struct clone_arguments { /* struct clone_args as of 5.7, which brought `cgroup` */
    uint64_t flags, pidfd, child_tid, parent_tid, exit_signal, stack, stack_size, tls, set_tid, set_tid_size, cgroup;
};

struct attempt {
    int (*try)(const struct attempt *); /* runs in the child; 0 or errno */
    char uid_map[32], gid_map[32];
    int error;
};

static int outcome(long result) {
    return result < 0 ? errno : 0;
}

/* ---- in the child: namespaces and mounts ---------------------------------------------------------------- */

static int nothing_more(const struct attempt *self) {
    (void)self;
    return 0;
}

static int put(const char *path, const char *text) {
    long file = syscall(SYS_openat, AT_FDCWD, path, O_WRONLY | O_CLOEXEC);
    if (file < 0) return errno;
    int error = outcome(syscall(SYS_write, file, text, strlen(text)));
    syscall(SYS_close, file);
    return error;
}

/* A user namespace without a map is of no use: some hosts allow the first and refuse the second. */
static int map_ids(const struct attempt *self) {
    int error = put("/proc/self/setgroups", "deny"); /* user_namespaces(7): before gid_map when unprivileged */
    if (!error) error = put("/proc/self/uid_map", self->uid_map);
    return error ? error : put("/proc/self/gid_map", self->gid_map);
}

static int mount_here(const char *type, const char *target, const char *data) {
    return outcome(syscall(SYS_mount, type, target, type, (unsigned long)(MS_NOSUID | MS_NODEV), data));
}

static int mount_proc(const struct attempt *self) {
    int error = map_ids(self);
    return error ? error : mount_here("proc", "/proc", NULL);
}

static int seal_mounts(const struct attempt *self) {
    struct mount_attributes attributes = {.set = ATTR_LOCKED_DOWN};
    int error = map_ids(self);
    if (error) return error;
    return outcome(syscall(SYS_mount_setattr, AT_FDCWD, "/", RECURSIVE, &attributes, sizeof attributes));
}

static int everything(const struct attempt *self) {
    int error = seal_mounts(self);
    return error ? error : mount_here("proc", "/proc", NULL);
}

/* /proc is the one directory that is certain to exist, the maps having been written through it. */
static int mount_tmpfs(const struct attempt *self) {
    int error = map_ids(self);
    return error ? error : mount_here("tmpfs", "/proc", "mode=0700,size=64k");
}

static int tmpfs_xattr(const struct attempt *self) {
    int error = mount_tmpfs(self);
    return error ? error : outcome(syscall(SYS_setxattr, "/proc", "user.pysandbox", "y", (size_t)1, 0));
}

static int mount_overlay(const struct attempt *self) {
    static const char *const directories[] = {"/proc/lower", "/proc/upper", "/proc/work", "/proc/merged"};
    int error = mount_tmpfs(self);
    for (size_t at = 0; !error && at < sizeof directories / sizeof *directories; at++)
        error = outcome(syscall(SYS_mkdirat, AT_FDCWD, directories[at], 0700));
    if (error) return error;
    return mount_here("overlay", "/proc/merged",
                      "lowerdir=/proc/lower,upperdir=/proc/upper,workdir=/proc/work,userxattr");
}

static int mount_binfmt_misc(const struct attempt *self) {
    int error = map_ids(self);
    return error ? error : mount_here("binfmt_misc", "/proc", NULL);
}

/* ---- in the child: seccomp ------------------------------------------------------------------------------ */

/* Installs "allow everything"; what seccomp(2) returned (with LISTENER, a file descriptor), or -1 and errno. */
static long allow_everything(unsigned int flags) {
    static struct sock_filter allow[] = {BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
    static const struct sock_fprog program = {.len = 1, .filter = allow};
    if (syscall(SYS_prctl, PR_SET_NO_NEW_PRIVS, 1L, 0L, 0L, 0L) < 0) return -1;
    return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &program);
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
    (void)self;
    long listener = allow_everything(LISTENER);
    if (listener < 0) return errno;
    const unsigned long addfd = _IOC(_IOC_WRITE, '!', 3, 24); /* SECCOMP_IOCTL_NOTIF_ADDFD */
    if (syscall(SYS_ioctl, listener, addfd, NULL) >= 0) return 0;
    return errno == EFAULT ? 0 : errno; /* it looked at the pointer, so it knows the request */
}

static int sync_wake_up(const struct attempt *self) {
    (void)self;
    long listener = allow_everything(LISTENER);
    if (listener < 0) return errno;
    const unsigned long set_flags = _IOC(_IOC_WRITE, '!', 4, 8); /* SECCOMP_IOCTL_NOTIF_SET_FLAGS */
    return outcome(syscall(SYS_ioctl, listener, set_flags, (unsigned long)SYNC_WAKE_UP));
}

/* ---- in place: calls that change nothing ---------------------------------------------------------------- */

static int wait_killable(void) {
    /* Unknown flags are refused (EINVAL) before the program is read (EFAULT). */
    if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, (unsigned int)(LISTENER | KILLABLE), NULL) >= 0) return 0;
    return errno == EFAULT ? 0 : errno;
}

static int open_pidfd(unsigned int flags) {
    long descriptor = syscall(SYS_pidfd_open, getpid(), flags);
    if (descriptor < 0) return errno;
    close((int)descriptor);
    return 0;
}

static int pidfd(void) {
    return open_pidfd(0);
}

static int pidfd_thread(void) {
    return open_pidfd(O_EXCL); /* PIDFD_THREAD */
}

static int clone_into_cgroup(void) {
    /* No process can come of it: the exit signal is not one. A kernel that has never heard of `cgroup` stumbles
     * over that field first (E2BIG); one that lacks clone3, or a filter that hides it, says ENOSYS. */
    struct clone_arguments arguments = {.exit_signal = UINT64_MAX, .cgroup = 1};
    if (syscall(SYS_clone3, &arguments, sizeof arguments) >= 0) return 0;
    return errno == EINVAL ? 0 : errno;
}

static int close_range_cloexec(void) {
    return outcome(syscall(SYS_close_range, ~0U, ~0U, CLOEXEC_RANGE));
}

/* ---- the table ------------------------------------------------------------------------------------------ */

static const struct {
    int namespaces; /* the child is cloned into these */
    int (*in_child)(const struct attempt *);
    int (*in_place)(void);
} probes[PSB_PROBE_COUNT] = {
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
    [PSB_PROBE_CLONE_INTO_CGROUP] = {0, NULL, clone_into_cgroup},
    [PSB_PROBE_CLOSE_RANGE] = {0, NULL, close_range_cloexec},
};

/* ---- in the parent -------------------------------------------------------------------------------------- */

static int child_main(void *argument) {
    struct attempt *self = argument;
    self->error = self->try(self);
    return 0;
}

static int reap(pid_t child) {
    while (waitpid(child, NULL, __WALL) < 0)
        if (errno != EINTR) return errno;
    return 0;
}

static int try_in_child(int namespaces, int (*try)(const struct attempt *)) {
    char stack[16384] __attribute__((aligned(16)));
    struct attempt attempt = {.try = try, .error = EPERM}; /* what stays when something kills the child */
    snprintf(attempt.uid_map, sizeof attempt.uid_map, "65534 %u 1", (unsigned int)geteuid());
    snprintf(attempt.gid_map, sizeof attempt.gid_map, "65534 %u 1", (unsigned int)getegid());

    /* The caller's signal handlers must not run in a child that shares its memory. */
    sigset_t all, before;
    sigfillset(&all);
    int error = pthread_sigmask(SIG_BLOCK, &all, &before);
    if (error) return error;
    /* No signal at its end, so that neither SIGCHLD nor a wait for any child elsewhere in the caller sees it. */
    pid_t child = clone(child_main, stack + sizeof stack, CLONE_VM | CLONE_VFORK | namespaces, &attempt);
    error = child < 0 ? errno : reap(child);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return error ? error : attempt.error;
}

int psb_probe(int name) {
    if (name < 0 || name >= PSB_PROBE_COUNT) return EINVAL;
    int saved = errno, error = 0;
    if (probes[name].in_place)
        error = probes[name].in_place();
    else
        error = try_in_child(probes[name].namespaces, probes[name].in_child);
    errno = saved;
    return error;
}

static int landlock_asks(unsigned int flags) {
    int saved = errno;
    long answer = syscall(SYS_landlock_create_ruleset, NULL, (size_t)0, flags);
    int result = answer < 0 ? -errno : (int)answer;
    errno = saved;
    return result;
}

int psb_landlock_abi(void) {
    return landlock_asks(LANDLOCK_VERSION);
}

int psb_landlock_errata(void) {
    return landlock_asks(LANDLOCK_ERRATA);
}
