/* The supervisor's C half: it receives the calls that a cage's filter hands over (seccomp_unotify(2)) and answers them
 * without the interpreter lock. What is a table is answered here; every other call waits for Python (read by cffi,
 * preprocessor lines stripped). Any thread may call any function; each returns 0 or more, or -errno. */
#ifndef PSB_HOST_NOTIFY_H
#define PSB_HOST_NOTIFY_H

#include <stddef.h>
#include <stdint.h>

enum psb_call_class {
    PSB_CALL_CONNECT,
    PSB_CALL_BIND,
    PSB_CALL_LISTEN,
    PSB_CALL_SENDTO,
    PSB_CALL_SENDMSG, /* sendmmsg as well */
    PSB_CALL_EXEC,    /* execve, execveat */
    PSB_CALL_OPEN,
    PSB_CALL_OTHER,  /* a call that only monitor mode lets through */
    PSB_CALL_NEVER,  /* one that it refuses as well; no call is of this class before its filter was asked */
    PSB_CALL_PATH,   /* another call that names a file: only ever watched */
    PSB_CALL_RENAME, /* rename, renameat, renameat2 with psb_rules.moves; without it they are of PATH */
    PSB_CALL_CLASSES
};

enum psb_action {
    PSB_ACTION_REFUSE, /* what a table does not name */
    PSB_ACTION_PASS,   /* the kernel goes on: the answer guards nothing */
    PSB_ACTION_TELL,   /* the same, and Python hears of it; of an exec whose path is not cached, first */
    PSB_ACTION_LIST,   /* done on behalf of the caller when the address is listed, refused when it is not */
    PSB_ACTION_ASK     /* Python decides */
};

/* How an address is reached: the bits of psb_endpoint.reach. */
enum psb_reach {
    PSB_REACH_LOCAL = 1, /* in the network of the caller's socket */
    PSB_REACH_GRANT = 2, /* in the host's network, by a socket put in the place of the caller's */
    PSB_REACH_NAMED = 4, /* the same, for an address that a name stands for (psb_grant_address) */
    PSB_REACH_OWN = 8    /* a grant holds although the address is this host's own */
};

/* Addresses and ports of one entry; IPv4 as ::ffff:a.b.c.d. */
struct psb_endpoint {
    uint8_t address[16];
    uint32_t prefix; /* bits, of 128 */
    uint16_t first_port, last_port;
    uint32_t protocols; /* 1: TCP, 2: UDP */
    uint32_t reach;
};

/* A unix socket of the host, by the file that it is. */
struct psb_granted {
    uint64_t device, inode;
};

struct psb_rules {
    uint32_t action[11];        /* by enum psb_call_class */
    uint32_t no_external_reach; /* other families than IP: 1, the kernel goes on, for a descriptor or an address swapped
                                 * meanwhile reaches nothing outside the cage; 0, they are done on behalf as well */
    uint32_t landlock_denies_bind; /* a bind of another family goes on even so: Landlock refuses every TCP bind */
    uint32_t grants;               /* the cage has a network of its own, and may be given sockets of the host's */
    uint32_t abstract;             /* abstract unix names are those of the cage's own network namespace */
    uint32_t on_host;        /* there is no namespace: of unix sockets those of `sockets` are reached, none is bound */
    uint32_t doors;          /* ... and the addresses of doors lead to those of psb_open_door, and nowhere else */
    uint32_t keeps_ports;    /* ... and no port of the host is bound either: EACCES, as Landlock says */
    uint32_t moves;          /* Python is asked to move directories, which an overlay does not do by itself */
    uint32_t watches_paths;  /* what calls are refused of the files that they name is told (paths.h) */
    uint32_t refuse_control; /* sendmsg with ancillary data is refused (SCM_RIGHTS) */
    uint32_t deadline_ms;    /* for Python's answers; then the call is refused */
    int32_t init_pid;        /* cage-init, whose own calls are nobody's business */
    uint32_t user;           /* whom the cage is outside, where root has started it as another; else 0 */
    uint32_t n_endpoints;
    uint64_t network; /* set by psb_notifier_add: with `grants`, the host's own (SO_NETNS_COOKIE); else 0 */
    const struct psb_endpoint *endpoints;
    uint32_t n_sockets;
    const struct psb_granted *sockets;
    uint64_t verdicts_size;  /* bytes */
    const uint8_t *verdicts; /* the filter as it would be if nobody watched (struct sock_filter), for a cage whose own
                              * hands over what it refuses; without it, what is so handed over is refused. What it
                              * would log is let pass, where it logs with an errno, refused with that */
};

enum psb_event_kind {
    PSB_EVENT_ASKED = 1,           /* waits for psb_answer or psb_answer_exec */
    PSB_EVENT_PASSED = 2,          /* PSB_ACTION_TELL */
    PSB_EVENT_REFUSED = 3,         /* by the table, for the first time; the count is in psb_denials */
    PSB_EVENT_LATE = 4,            /* the deadline passed; the call was refused */
    PSB_EVENT_NOT_REPLACEABLE = 5, /* a datagram to a granted address, by a socket that cannot leave the cage's network:
                                    * waits for PSB_ANSWER_RELAYED */
    PSB_EVENT_MISSED = 6           /* a path that the call was refused; the count is in psb_path_counts */
};

struct psb_event {
    uint32_t kind;
    uint32_t cage;
    uint64_t pending; /* names a call that waits; never used twice */
    uint64_t serial;  /* counts what is told to nobody who waits, for each cage from 1, without gaps; else 0 */
    uint64_t asked;   /* PSB_EVENT_PASSED of an exec: a digest of the path as it was written; PSB_EVENT_MISSED: a key */
    uint32_t call;    /* enum psb_call_class */
    int32_t number;   /* of the system call */
    int32_t pid;      /* the calling thread, as the host sees it */
    int32_t session;  /* getsid(2) of it; 0 when it is gone */
    int32_t domain;   /* of the socket, AF_*; 0 if there is none */
    int32_t protocol;
    uint32_t address_size;
    uint8_t address[128]; /* struct sockaddr as it was read, and as it will be used */
    uint64_t args[6];
    uint32_t wanted; /* PSB_EVENT_MISSED: as in struct psb_look */
    int32_t refusal;
    uint32_t directory;
    uint32_t text_size;
    char text[4096]; /* PSB_EVENT_PASSED of an exec: the program, by its real path in the cage; PSB_EVENT_MISSED: the
                      * path as the cage names it */
};

/* What a call wants of a file that it names. */
enum psb_wanted {
    PSB_WANTED_LOOK = 1,
    PSB_WANTED_READ,
    PSB_WANTED_WRITE,
    PSB_WANTED_CREATE, /* to be written, and made where it is missing */
    PSB_WANTED_MAKE,   /* a new name */
    PSB_WANTED_CHANGE, /* its mode, owner or times */
    PSB_WANTED_REMOVE,
    PSB_WANTED_RUN
};

enum {
    PSB_LOOKS = 2
}; /* paths that one call names */

/* One path that a call is refused: what it wants, the errno it gets, and whether it is a directory. Where there is no
 * namespace, a path that Landlock may refuse. */
struct psb_look {
    uint32_t wanted;
    int32_t number;
    uint32_t directory;
    char path[4096];
};

/* How often one kind of look was seen, by the key of its PSB_EVENT_MISSED. */
struct psb_path_count {
    uint64_t key, count;
};

struct psb_denial {
    uint32_t call;
    int32_t number;
    int32_t pid;     /* the first */
    int32_t session; /* of all that are counted here, by the host's number */
    int32_t protocol;
    uint32_t address_size;
    uint8_t address[128];
    uint64_t count;
};

enum psb_answer_kind {
    PSB_ANSWER_ERRNO,   /* it fails with `value` */
    PSB_ANSWER_RETURN,  /* it returns `value` */
    PSB_ANSWER_PASS,    /* the kernel goes on; only where the rule of its class is PSB_ACTION_TELL */
    PSB_ANSWER_BEHALF,  /* it is done on behalf, with the address that was read */
    PSB_ANSWER_RELAYED, /* the same, in the cage's network: somebody listens at the address by now */
    PSB_ANSWER_INJECT   /* descriptor `value` of this process is installed in the caller, close-on-exec if `flags`, and
                         * its number returned */
};

/* What an execve may become: path and arguments as the kernel shows its own copy of them, each with its NUL. */
struct psb_image {
    const char *name; /* AT_EXECFN (getauxval(3)) */
    const char *arguments;
    uint64_t arguments_size;
    uint64_t program_device, program_inode; /* what runs then */
    const char *script;                     /* the arguments where the file begins with #!; NULL where it does not */
    uint64_t script_size;
    uint64_t device, inode; /* the interpreter that runs then */
};

struct psb_notifier;

/* NULL when there is no memory or descriptor for it. */
struct psb_notifier *psb_notifier_new(void);
/* The loop: returns 0 after psb_notifier_stop, -errno if it cannot go on. One thread for each notifier. */
int psb_notifier_run(struct psb_notifier *notifier);
/* Ends the loop and wakes whoever waits in psb_notifier_next. */
void psb_notifier_stop(struct psb_notifier *notifier);
/* After the loop and every psb_notifier_next have returned. */
void psb_notifier_free(struct psb_notifier *notifier);

/* Takes over the listener (also when it fails). Returns the cage's number for the calls below. */
int64_t psb_notifier_add(struct psb_notifier *notifier, int listener, const struct psb_rules *rules);
/* New rules; calls that wait keep the answer they will get, but for connects that wait to leave the cage's network. */
int psb_notifier_rule(struct psb_notifier *notifier, uint32_t cage, const struct psb_rules *rules);
/* For `milliseconds`, a TCP connect to the first address leads to the second, in the host's network, when the rules
 * name it (PSB_REACH_NAMED); both as sixteen bytes. Of several for one the first that may be is taken. -ENOENT: the
 * cage is gone. */
int psb_grant_address(struct psb_notifier *notifier, uint32_t cage, const uint8_t *synthetic, const uint8_t *real,
                      uint16_t first_port, uint16_t last_port, uint64_t milliseconds);
/* From now on a TCP connect to this address (as sixteen bytes) and port leads to a door: the other end of each
 * connection is sent to `sink`, a connected unix(7) socket that keeps messages apart, as SCM_RIGHTS. Takes over the
 * sink, also when it fails. */
int psb_open_door(struct psb_notifier *notifier, uint32_t cage, const uint8_t *address, uint16_t port, int sink);
/* Closes the listener; what still waits fails with ENOSYS, as do all later calls. */
int psb_notifier_remove(struct psb_notifier *notifier, uint32_t cage);
/* Copies out up to `room` kinds of refused calls with their counts; `lost` counts those for which there was no
 * room, for each class (enum psb_call_class). */
int psb_denials(struct psb_notifier *notifier, uint32_t cage, struct psb_denial *denials, size_t room, uint64_t *lost);

/* Copies out up to `room` counts; `lost` looks were of kinds for which there was no place. */
int psb_path_counts(struct psb_notifier *notifier, uint32_t cage, struct psb_path_count *counts, uint32_t room,
                    uint64_t *lost);

/* The serial number of the last event of a cage, -ENOENT when it is gone. */
int64_t psb_last_event(struct psb_notifier *notifier, uint32_t cage);
/* Waits for an event; 1, or 0 when the notifier has stopped. */
int psb_notifier_next(struct psb_notifier *notifier, struct psb_event *event);
/* -ENOENT: the call is not waiting any more (its deadline passed, its caller died). */
int psb_answer(struct psb_notifier *notifier, uint64_t pending, int kind, int64_t value, uint32_t flags);
/* An execve that is to be refused, and knows nothing of it yet. For the thread that asked alone: ptrace(2) is its. */
struct psb_refused_exec {
    uint64_t pending, id;
    int32_t listener;   /* -1: it waits among the pending calls still */
    int32_t tid, group; /* who is traced; 0: nobody */
    int32_t executed;   /* it is stopped before its first instruction, and else waits for the answer */
};
/* Lets an execve go on whose path and arguments (each with its NUL, one behind the other) are still the expected ones,
 * and returns when it has succeeded or failed. What the kernel has read must be the image. There is no other way for a
 * call that was asked about to go on: the kernel reads again what was decided. -ENOENT: it waits no more; -EPERM: what
 * it is has changed; -EACCES: it cannot be traced. After these two psb_refuse_exec has to be called, so that it can be
 * recorded before its caller learns of it. */
int psb_answer_exec(struct psb_notifier *notifier, uint64_t pending, const char *expected, size_t size,
                    const struct psb_image *image, struct psb_refused_exec *refused);
/* The caller's execve fails with EPERM; one that has executed is killed. */
void psb_refuse_exec(struct psb_notifier *notifier, struct psb_refused_exec *refused);
/* Whether a call still waits, and its caller lives: 1, or 0. What was read of that caller before is its own, then. */
int psb_waits(struct psb_notifier *notifier, uint64_t pending);

/* One call that is emulated: its class (enum psb_call_class) and the socket's family. What has no row is refused. */
struct psb_behalf_row {
    int32_t family;
    uint32_t call;
};
/* Copies out up to `room` rows; how many there are. */
int psb_behalf_table(struct psb_behalf_row *rows, size_t room);

/* A connect, as the tests ask about it: which of its facts the rules are held against. */
struct psb_asked {
    const uint8_t *address; /* struct sockaddr */
    uint32_t size;
    int32_t protocol;
    uint32_t own;        /* 1: the address is this host's; 0: it is not; 2: nobody has asked */
    uint32_t host_netns; /* the socket is of the host's network */
    const uint8_t *real; /* sixteen bytes for which the address stands; or NULL */
};
/* Where it leads by the rules (enum psb_reach, 0: nowhere), for the tests that hold them against the Python rules. */
int psb_reach_of(const struct psb_rules *rules, const struct psb_asked *asked);

/* direct_own.c: whether an address of sixteen bytes is this host's own, or no single host's: 1, 0, or -errno. */
int psb_is_own(const uint8_t *address);

#endif
