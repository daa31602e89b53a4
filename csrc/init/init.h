/* cage-init: PID 1 of a cage. A freestanding static program with no libc, no heap and no capability.
 *
 * It waits on its control socket, runs commands, reaps, and reports; it decides nothing. When the host is gone it kills
 * everything and exits, and the PID namespace dies with it.
 *
 * Its state: the cage and the message that was read last (main.c), the start under way (exec.c), and room to look
 * through /proc in (tree.c). */
#ifndef PSB_INIT_H
#define PSB_INIT_H

#include "../error.h"

struct bpf_instruction {
    uint16_t code;
    uint8_t jt, jf;
    uint32_t k;
};

struct command {
    int32_t pid; /* 0: a free place */
    uint32_t id;
    int32_t report_fd;
    uint32_t oneshot;
    uint32_t grace_ms;
    uint64_t deadline_ms; /* CLOCK_MONOTONIC; 0: none */
    uint32_t stage;       /* enum walltime_stage */
};

enum walltime_stage {
    WALLTIME_RUNNING,
    WALLTIME_TERMINATED,
    WALLTIME_KILLED
};

struct cage {
    uint32_t flags; /* enum psb_setup_flag */
    uint32_t umask;
    uint32_t filter_count; /* of the whole cage; 0: no filter */
    uint32_t late_count;   /* behind it, of each command; 0: none */
    uint32_t set_up;
    uint32_t n_commands;     /* places in use are below this */
    int32_t child_signals;   /* signalfd for SIGCHLD */
    int32_t oom_score;       /* until the setup; -1: none */
    int32_t listener;        /* until the host has taken it; 0: none */
    uint64_t blocks_written; /* by all that was reaped */
    uint64_t no_routes;      /* when a command last failed (no_route.c) */
    uint32_t others_ended;   /* since then */
    struct bpf_instruction filter[PSB_MAX_FILTER];
    struct command commands[PSB_MAX_COMMANDS];
};

/* An exec order, parsed: pointers into the body, all checked. */
struct order {
    uint32_t flags, id, n_fds, n_limits, n_paths, n_argv, n_env, walltime_ms, grace_ms;
    const int32_t *targets;
    const struct psb_limit *limits;
    const char *cwd;
    const char **paths, **argv, **envp; /* argv and envp end with NULL */
    int fds[PSB_MAX_FDS];
};

/* What recvmsg(2) puts beside a message: one control message, SCM_RIGHTS, is all that a host can send us. */
struct control {
    size_t size; /* of head and descriptors together */
    int32_t level, type;
    int32_t fds[PSB_MAX_FDS + 3];
};

/* orders.c: pure */
int check_setup(const void *message, size_t size);
int check_exec(const void *message, size_t size);
int check_signal(const void *message, size_t size);
/* How many descriptors came along; `size` is what the kernel says it has written to *control. */
int count_fds(const struct control *control, size_t size);
/* How many pointers parse_order needs room for. */
size_t count_pointers(const struct psb_exec *exec);
/* 0, or -1 when the body does not hold what the header says. */
int parse_order(const struct psb_exec *exec, const void *body, const char **pointers, struct order *order);

/* receive.c: one message from the control socket */
struct message {
    size_t size;
    int n_fds;
    int fds[PSB_MAX_FDS + 3];
    union {
        uint32_t kind;
        struct psb_setup setup;
        struct psb_exec exec;
        struct psb_signal signal;
        uint8_t bytes[PSB_MAX_INLINE + 64];
    } as __attribute__((aligned(8)));
};
/* 1: a message; 0: end-of-file; -errno. */
int receive(int fd, struct message *message);

/* What cage-init and its child share while a command is being started. `exec_pipe`: see exec.c. */
struct attempt {
    struct cage *cage;
    struct order *order;
    int32_t exec_pipe;
    struct psb_error error;
};

/* exec.c: an order begins a start; when its exec pipe hangs up, the start is to be finished. -1: no start is under way.
 */
void begin_command(struct cage *cage, struct message *message);
int32_t start_pipe(void);
int32_t starting(void); /* the pid; 0: no start is under way */
void finish_start(int reaped);
/* To be called now and then while a start is under way. */
void continue_start(void);

/* fork.c, become.c */
long fork_onto(uint8_t *stack, size_t size, struct attempt *attempt);
int become_command(struct attempt *attempt);

/* limits.c, seccomp.c, landlock.c: one command's own confinement; 0 or -errno */
long set_limits(const struct order *order);
long enter_landlock(const struct cage *cage);
long install_filter(const struct cage *cage);
long install_late_filter(const struct cage *cage);
/* ... which hands calls over: keeps the listener in the cage, and tells the host its number. */
long install_listening_filter(struct cage *cage);
void release_listener(struct cage *cage);

/* reap.c */
void reap(struct cage *cage);

/* signals.c */
void signal_command(struct cage *cage, const struct psb_signal *request);
void signal_all(const struct cage *cage, int32_t signal);
/* Kills every process of the cage but this one; returns how many were still running. */
uint32_t kill_everything(struct cage *cage);

/* no_route.c: whether a command that has failed looked for a host, where no other one ran meanwhile */
int met_no_route(struct cage *cage, const struct command *command);

/* tree.c: a file of /proc that cage-init itself opens, whatever is decided about the cage's; -errno */
long open_own(const char *path, int flags);
/* tree.c: the number that stands next, behind blanks; `at` is left behind it. */
long number_at(const char **at, const char *end);

/* tree.c: signals every process of a command's session, and all that descends from these */
void signal_tree(int32_t leader, int32_t signal);
/* Signals every child of cage-init. */
void signal_children(int32_t signal);

/* walltime.c */
void start_clock(struct command *command, uint32_t walltime_ms, uint32_t grace_ms);
/* Acts on every deadline that has passed; returns the milliseconds until the next one, or -1. */
int64_t enforce_walltime(struct cage *cage);

/* report.c */
void report(int fd, const struct psb_report *record);

/* memory.c */
void fill(void *to, uint8_t value, size_t size);
void *memcpy(void *restrict to, const void *restrict from, size_t size);

#endif
