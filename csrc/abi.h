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
    PSB_MOUNT_UNPROTECT_ROOT,
    PSB_MOUNT_UPPER,      /* the place of the upper layers of all PSB_MOUNT_OVERLAY: a memory file system, or source */
    PSB_MOUNT_OVERLAY,    /* source is the lower tree, data the name of its layers in PSB_MOUNT_UPPER */
    PSB_MOUNT_UPPER_GIVEN /* the host gets a descriptor of it, and no path leads there any more */
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
    uint32_t inside_uid, inside_gid;
    uint32_t outside_uid, outside_gid;
    uint32_t loopback;
    uint32_t scope_signals; /* landlock mode: cage-init lives in a domain of its own (setup/landlock.c) */
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
    PSB_MESSAGE_WAKE_HINT = 4, /* an order follows within microseconds: do not go back to sleep; nothing but the kind */
    PSB_MESSAGE_LISTENER = 5,  /* cage-init -> host: struct psb_listener */
    PSB_MESSAGE_WRITTEN = 6, /* a question, nothing but the kind; and the answer, struct psb_written. The host reads an
                              * answer before it asks again, so there is always room for it */
    PSB_MESSAGE_UPPER = 7    /* setup -> host, with a descriptor of PSB_MOUNT_UPPER: before anything else is sent */
};

enum psb_setup_flag {
    PSB_SETUP_LANDLOCK = 1,   /* commands enter PSB_FD_RULESET */
    PSB_SETUP_SUBREAPER = 2,  /* no PID namespace: adopt orphans */
    PSB_SETUP_SCOPED = 4,     /* ... but a Landlock domain that no signal leaves: kill(-1) means the cage */
    PSB_SETUP_NO_WAY_OUT = 8, /* a network namespace of its own, from which nothing leads anywhere */
    PSB_SETUP_LISTENER = 16   /* the filter hands calls to a listener (seccomp_unotify(2)), whose number is answered.
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
    uint32_t no_route;      /* of PSB_SETUP_NO_WAY_OUT, where it failed: a name was looked up, or an address called */
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

/* ---- a kept plan: what Python writes and the launcher reads ------------------------------------------------------ *
 * One file: this header, then tables. Every table begins at a multiple of 8. Text is in one table, each text ended by a
 * NUL, the table too; a text is named by its offset there, also where a struct has a pointer. Nothing is looked at
 * before the signature, and every offset and count is checked all the same. */

enum psb_kept_section_name {
    PSB_KEPT_KEY,       /* bytes: what the run must be like, sealed (csrc/launcher/key.c) */
    PSB_KEPT_TEXT,      /* bytes */
    PSB_KEPT_PLAN,      /* one struct psb_plan, without hostname, mounts and rules */
    PSB_KEPT_MOUNTS,    /* struct psb_mount */
    PSB_KEPT_RULES,     /* struct psb_rule */
    PSB_KEPT_LIMITS,    /* struct psb_limit */
    PSB_KEPT_SETUP,     /* bytes: the first message to cage-init */
    PSB_KEPT_VARIABLES, /* psb_kept_pair: a name, and the value that it must have */
    PSB_KEPT_STAMPS,    /* psb_kept_stamp */
    PSB_KEPT_PROGRAMS,  /* psb_kept_pair: a path, and the program that it must lead to */
    PSB_KEPT_PLACES,    /* psb_kept_place */
    PSB_KEPT_SEEN,      /* struct psb_seen (csrc/host/probe/probe.h) */
    PSB_KEPT_SEARCHED,  /* psb_kept_searched */
    PSB_KEPT_NAMES,     /* uint32_t: texts, which PSB_KEPT_SEARCHED counts off */
    PSB_KEPT_ABSENT,    /* struct psb_absent */
    PSB_KEPT_PLANTED,   /* psb_kept_planted, one for each that is absent */
    PSB_KEPT_PATHS,     /* uint32_t: where the program is looked for */
    PSB_KEPT_ENV,       /* uint32_t: NAME=value */
    PSB_KEPT_PASSED,    /* uint32_t: names of the caller's variables that are passed through */
    PSB_KEPT_GIVEN,     /* psb_kept_given: variables whose value is in the command line, and nowhere else */
    PSB_KEPT_WEAKER,    /* uint32_t: lines on standard error */
    PSB_KEPT_RECORDS,   /* psb_kept_record: what the audit is told before the command is ordered, and with it */
    PSB_KEPT_ROUTES,    /* bytes: netlink messages for the cage's network namespace (csrc/host/net/netns.h) */
    PSB_KEPT_REDIRECT,  /* bytes: likewise, of nf_tables */
    PSB_KEPT_DOORS,     /* psb_kept_door */
    PSB_KEPT_WATCHED,   /* uint32_t: paths in the cage of memory file systems, which count as memory */
    PSB_KEPT_GROUP,     /* psb_kept_place: the cgroup below which that of the cage is made; none: it has none */
    PSB_KEPT_HANDED,    /* uint32_t: the controllers that it must hand down */
    PSB_KEPT_SETTINGS,  /* psb_kept_setting */
    PSB_KEPT_SECTIONS
};

enum psb_kept_text_name {
    PSB_TEXT_INIT, /* the path of cage-init */
    PSB_TEXT_HOST_PREFIX,
    PSB_TEXT_CWD,
    PSB_TEXT_DIGEST,
    PSB_TEXT_SERVED,         /* the digest of what serves the cage besides its command */
    PSB_TEXT_AUDIT,          /* the file of the trail */
    PSB_TEXT_RECORDS,        /* the directory of the records of live cages */
    PSB_TEXT_LIMIT_WALLTIME, /* JSON, empty for none: what a policy.violation tells of it */
    PSB_TEXT_LIMIT_TIMEOUT,
    PSB_TEXT_LIMIT_SECCOMP,
    PSB_TEXT_OWN_GROUP, /* the cgroup that whoever runs it must be in, where the cage gets one */
    PSB_TEXTS
};

enum psb_kept_flag {
    PSB_KEPT_TERMINAL = 1, /* the command gets a terminal of its own */
    PSB_KEPT_AUDITED = 2,
    PSB_KEPT_LISTENS = 4, /* the filter of the cage hands calls over: there is a listener */
    PSB_KEPT_OWN_NET = 8, /* the cage has a network namespace */
    PSB_KEPT_ALONE = 16   /* no Python is started after the command: it could load what that wrote */
};

enum psb_kept_constant {
    PSB_KEPT_VERSION = 4,
    PSB_KEPT_MOST_DOORS = 16,
    PSB_KEPT_MOST_WATCHED = 8,
    PSB_KEPT_LARGEST = 1048576, /* bytes of the file */
    PSB_NO_TEXT = 0x7fffffff,
    PSB_SLOT_ARGV = 1, /* in a record: a byte that stands for the arguments, */
    PSB_SLOT_SHORT_ID, /* the first six letters of the cage's id, */
    PSB_SLOT_ID        /* all of it */
};

struct psb_kept_section {
    uint32_t at; /* offset in the file */
    uint32_t count;
};

struct psb_kept_pair {
    uint32_t name;
    uint32_t value; /* PSB_NO_TEXT: there must be none */
};

struct psb_kept_stamp {
    uint32_t path;
    uint32_t there; /* 0: there must be nothing of that name */
    uint64_t dev, ino, size, mtime_ns, ctime_ns;
};

struct psb_kept_place {
    uint32_t path;
    uint32_t real;
    uint32_t there;
    uint32_t mode;
    uint64_t dev, ino, uid;
};

struct psb_kept_searched {
    uint32_t directory;
    uint32_t below;
    uint32_t first; /* of PSB_KEPT_NAMES */
    uint32_t count;
    int64_t when; /* time of change, ns; -1: it must be absent; another negative number: it is looked into */
};

struct psb_kept_planted {
    uint32_t path;   /* as JSON */
    uint32_t shown;  /* as the warning shows it */
    uint32_t quoted; /* the same within a JSON text */
};

struct psb_kept_given {
    uint32_t flag; /* which of the arguments before the command */
    uint32_t at;   /* where NAME=value begins in it */
};

struct psb_kept_door {
    uint32_t kind;                       /* "dns/udp": what is spoken there, and by which protocol */
    uint32_t name;                       /* of its socket, for an error */
    int32_t family, type, port, backlog; /* as in struct psb_socket */
    uint8_t address[16];
};

struct psb_kept_setting {
    uint32_t file; /* of the cage's cgroup */
    uint32_t value;
    uint32_t optional; /* a kernel may have no such file */
};

struct psb_kept_record {
    uint32_t type;
    uint32_t data; /* JSON, with slots */
    uint32_t durable;
};

struct psb_kept {
    uint8_t signature[32]; /* HMAC-SHA-256 of all that follows; the key is csrc/host/spawn/secret.c's */
    char abi[64];          /* of the build that wrote it */
    uint32_t version;
    uint32_t size; /* of the file */
    uint32_t flags;
    uint32_t walltime_ms, grace_ms;
    uint32_t pad;
    uint64_t timeout_ns; /* 0: none */
    uint64_t memory;     /* bytes of the whole cage, which nothing but a watch holds; 0: none */
    uint32_t texts[PSB_TEXTS];
    struct psb_kept_section sections[PSB_KEPT_SECTIONS];
};

#endif
