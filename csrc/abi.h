/* Everything that more than one of {Python, the extension, setup, cage-init} must agree on: one copy, no second list.
 *
 * cffi reads this file too (preprocessor lines stripped), so it holds plain C declarations of fixed-size types only.
 * Messages between the host and cage-init are these structs, sent whole over a SOCK_SEQPACKET pair; every length in
 * them is checked by the receiver before use. */
#ifndef PSB_ABI_H
#define PSB_ABI_H

#include <stdint.h>

/* ---- one error channel ---------------------------------------------------------------------------------------- */

struct psb_error {
    int32_t step;   /* enum psb_step, 0: no error */
    int32_t number; /* errno */
    char path[248]; /* what it was about, cut if longer, empty if nothing */
};

/* ---- the plan of a cage: what setup carries out ------------------------------------------------------------------ */

enum psb_mount_kind {
    PSB_MOUNT_DIR,
    PSB_MOUNT_FILE,
    PSB_MOUNT_SYMLINK,
    PSB_MOUNT_BIND,
    PSB_MOUNT_PIN,
    PSB_MOUNT_TMPFS,
    PSB_MOUNT_PROC,
    PSB_MOUNT_DEVPTS,
    PSB_MOUNT_MQUEUE,
    PSB_MOUNT_MASK_FILE,
    PSB_MOUNT_MASK_DIR,
    PSB_MOUNT_DENY_FILE,
    PSB_MOUNT_DENY_DIR,
    PSB_MOUNT_PROTECT,
    PSB_MOUNT_UNPROTECT_ROOT
};

/* The user and the group, outside, of the cages that root starts: nobody's, of no range that anything hands out. */
enum psb_outside {
    PSB_OUTSIDE = 0x70736278
};

enum psb_mount_flag {
    PSB_OPTIONAL = 1,    /* what is not there is skipped; any other failure is an error all the same */
    PSB_INSIDE_BIND = 2, /* the target lies in a foreign tree: never follow a symlink there */
    PSB_VERIFY = 4,      /* the source must still be (dev, ino); only a constant of the setup goes without */
    PSB_NAMED = 8,       /* of a file: the cage's host name, and a newline, follow the data */
    PSB_MUST_MAP = 16    /* with idmap_fd: without the mapping nothing could be written there, so it is an error */
};

struct psb_mount {
    uint32_t kind;
    uint32_t flags;
    uint32_t mode;
    uint32_t attrs; /* MOUNT_ATTR_*, applied to the new mount */
    uint64_t dev;
    uint64_t ino;
    const char *source;
    const char *target; /* absolute, inside the cage */
    const char *data;
};

struct psb_rule {
    const char *path;
    uint64_t access;
    uint64_t dev; /* as in struct psb_mount; ino 0: any */
    uint64_t ino;
    uint32_t optional;
    uint32_t pad;
};

struct psb_landlock {
    uint32_t enabled;
    uint32_t n_rules;
    uint64_t handled_fs;
    uint64_t handled_net;
    uint64_t scoped;
    const struct psb_rule *rules;
};

struct psb_plan {
    uint64_t namespaces; /* CLONE_NEW*; 0: landlock mode */
    int32_t inside_uid, inside_gid;
    int32_t outside_uid, outside_gid;
    uint32_t loopback;
    uint32_t scope_signals; /* landlock mode: cage-init lives in a domain of its own, see setup.c */
    uint32_t unconfined;    /* uncaged: capabilities, keyring and privileges stay as they are */
    uint32_t unrooted;      /* root starts it, and outside it is PSB_OUTSIDE: idmap_fd is wanted */
    int32_t idmap_fd;       /* the user namespace that swaps root with PSB_OUTSIDE on what is bound; -1: nothing is */
    int32_t cgroup_fd;      /* the cgroup v2 directory the cage is born in; -1: the host's own */
    const char *hostname;
    const char *staging;
    uint32_t n_mounts;
    const struct psb_mount *mounts;
    struct psb_landlock landlock;
};

/* ---- cage-init's descriptors ----------------------------------------------------------------------------------- */

enum psb_init_fd {
    PSB_FD_CONTROL = 3, /* SOCK_SEQPACKET, messages below; end-of-file means death */
    PSB_FD_HOST = 4,    /* pidfd of the host process; readable means death as well */
    PSB_FD_RULESET = 5, /* the Landlock ruleset every command enters; /dev/null when there is none */
    PSB_FD_FIRST_FREE = 6
};

/* ---- host -> cage-init ------------------------------------------------------------------------------------------ *
 * A message that is not as described here ends the cage; an order that is not fails, at the step "order". Only an
 * order comes with descriptors. */

enum psb_message_kind {
    PSB_MESSAGE_SETUP = 1,
    PSB_MESSAGE_EXEC = 2,
    PSB_MESSAGE_SIGNAL = 3,
    PSB_MESSAGE_NUDGE = 4,    /* an order follows within microseconds: do not go back to sleep; nothing but the kind */
    PSB_MESSAGE_LISTENER = 5, /* cage-init -> host: struct psb_listener */
    PSB_MESSAGE_WRITTEN = 6   /* a question, nothing but the kind; and the answer, struct psb_written. The host reads an
                               * answer before it asks again, so there is always room for it */
};

enum psb_setup_flag {
    PSB_SETUP_LANDLOCK = 1,  /* commands enter PSB_FD_RULESET */
    PSB_SETUP_SUBREAPER = 2, /* no PID namespace: adopt orphans */
    PSB_SETUP_SCOPED = 4,    /* ... but a Landlock domain that no signal leaves: kill(-1) means the cage */
    PSB_SETUP_LISTENER = 16  /* the filter hands calls to a listener (seccomp_unotify(2)), whose number is answered.
                              * The host takes it with pidfd_getfd(2) before it sends anything else, and then
                              * cage-init closes its own. Only with a filter */
};

/* The answer to a setup with PSB_SETUP_LISTENER. */
struct psb_listener {
    uint32_t kind;
    int32_t fd; /* in cage-init; -errno: there is none, and cage-init ends */
};

/* What every process wrote that cage-init has reaped, and what those wrote that it had waited for. */
struct psb_written {
    uint32_t kind;
    uint32_t pad;
    uint64_t blocks; /* of 512 bytes: ru_oublock of getrusage(2) */
};

/* First message of every cage. Followed by `filter_count` struct sock_filter, the filter of the whole cage: cage-init
 * lives under it too, and commands inherit it, so it lets pass every call that cage-init makes. Then `late_count` more:
 * a second filter, installed by each command as the last thing before its execve, for what the first had to leave open.
 */
struct psb_setup {
    uint32_t kind;
    uint32_t flags;
    uint32_t filter_count;
    uint32_t late_count;
};

enum psb_exec_flag {
    PSB_EXEC_ONESHOT = 1,  /* the cage ends with this command */
    PSB_EXEC_TERMINAL = 2, /* descriptor 0 becomes the controlling terminal */
    PSB_EXEC_BODY_FD = 4,  /* the body is not in the message but in the second descriptor, a memfd */
    PSB_EXEC_QUIET = 8     /* no PSB_REPORT_STARTED: one wake-up of the host less */
};

struct psb_limit {
    uint32_t resource;
    uint32_t pad;
    uint64_t value; /* UINT64_MAX is RLIM_INFINITY */
};

/* A command. Descriptors that come along (SCM_RIGHTS): the report pipe, [the body], then n_fds of the command's own.
 * Body: int32_t targets[n_fds]; then, 8-byte aligned, struct psb_limit[n_limits]; then NUL-terminated strings: cwd,
 * n_paths candidates for execve, n_argv, n_env. */
struct psb_exec {
    uint32_t kind;
    uint32_t flags;
    uint32_t id; /* the host's name for this command, for PSB_MESSAGE_SIGNAL; never 0, never used twice in a cage */
    uint32_t n_fds;
    uint32_t n_limits;
    uint32_t n_paths;
    uint32_t n_argv;
    uint32_t n_env;
    uint32_t body_size;
    uint32_t walltime_ms; /* 0: none. Then SIGTERM, the grace period, SIGKILL, to the command's whole session, or */
    uint32_t grace_ms;    /* to the whole cage with PSB_EXEC_ONESHOT */
    uint32_t pad;
};

enum psb_signal_scope {
    PSB_SIGNAL_ONE = 0,     /* the command's own process */
    PSB_SIGNAL_SESSION = 1, /* every process of the command's session (setsid), and what descends from them */
    PSB_SIGNAL_ALL = 2      /* every process of the cage but cage-init */
};

struct psb_signal {
    uint32_t kind;
    uint32_t id; /* of a command; 0 with PSB_SIGNAL_ALL */
    int32_t signal;
    uint32_t scope;
};

/* ---- cage-init -> host, on the command's own report pipe -------------------------------------------------------- */

enum psb_report_kind {
    PSB_REPORT_FAILED = 1,  /* it never ran; error says why; nothing follows */
    PSB_REPORT_STARTED = 2, /* execve succeeded (or the process was killed inside it) */
    PSB_REPORT_EXITED = 3   /* wait status and usage; nothing follows */
};

struct psb_report {
    uint32_t kind;
    int32_t pid;
    int32_t status;         /* as wait4(2) */
    uint32_t killed_others; /* one-shot: processes that were still running and were killed */
    uint32_t timed_out;     /* the wall time ran out */
    uint32_t pad;
    uint64_t user_us;
    uint64_t system_us;
    uint64_t max_rss_kb;
    struct psb_error error;
};

enum psb_limits {
    PSB_MAX_FILTER = 4096,  /* BPF_MAXINSNS; of both filters together */
    PSB_MAX_FDS = 250,      /* SCM_MAX_FD is 253 */
    PSB_MAX_INLINE = 32768, /* larger messages travel in a memfd */
    PSB_MAX_BODY = 16777216,
    PSB_MAX_COMMANDS = 4096 /* running at once in one cage */
};

#endif
