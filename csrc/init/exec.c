/* One exec order: fork a child that confines itself and execs, and tell the host how that went.
 *
 * The child shares this process's memory until it execs (CLONE_VM): a failure is written once, into the order's error,
 * where it happened. It is waited for as after vfork, but never blindly: any command of the cage may stop it with
 * SIGSTOP before it has execed, and cage-init must still hear the end of the host. The order of `become_command` is
 * fixed: descriptors before limits (a low RLIMIT_NOFILE would refuse dup3), Landlock after chdir, seccomp last. */
#include <linux/futex.h>
#include <linux/sched.h>
#include <poll.h>
#include <sys/prctl.h>

#include "init.h"

#define F_DUPFD_CLOEXEC_ 1030
#define TIOCSCTTY_ 0x540E
#define ENOENT_ (-2)
#define E2BIG_ (-7)
#define EAGAIN_ (-11)
#define EACCES_ (-13)
#define ENOTDIR_ (-20)
#define EINVAL_ (-22)
#define PROT_RW 3
#define PROT_READ_ 1
#define MAP_PRIVATE_ 2
#define MAP_ANONYMOUS_ 0x20
#define CHILD_STACK 16384
#define FEW_POINTERS 256 /* enough for most commands; more are mapped */
#define SIGKILL_ 9
#define SIGCONT_ 18
#define ETIMEDOUT_ (-110)
#define GLANCE_NS 20000000 /* how often a child that does not get on is looked after */
#define GLANCES 500        /* how often until it is given up: ten seconds */

struct attempt {
    struct cage *cage;
    struct order *order;
    struct psb_error error;
    int32_t shared; /* 1 while the child runs in our memory; the kernel clears it at exec or exit, and wakes us */
};

static uint8_t child_stack[CHILD_STACK] __attribute__((aligned(16)));

static int failed(struct attempt *attempt, enum psb_step step, long result, const char *path) {
    attempt->error.step = (int32_t)step;
    attempt->error.number = (int32_t)-result;
    text_copy(attempt->error.path, sizeof attempt->error.path, path ? path : "");
    return -1;
}

/* ---- in the child ------------------------------------------------------------------------------------------------ */

static int place_descriptors(struct attempt *attempt) {
    struct order *order = attempt->order;
    int32_t above = PSB_FD_FIRST_FREE;
    long result;
    uint32_t i;
    for (i = 0; i < order->n_fds; i++)
        if (order->targets[i] >= above) above = order->targets[i] + 1;
    for (i = 0; i < order->n_fds; i++) { /* out of the way of every target */
        result = sys_call(SYS_fcntl, order->fds[i], F_DUPFD_CLOEXEC_, above, 0, 0, 0);
        if (result < 0) return failed(attempt, PSB_STEP_FDS, result, NULL);
        order->fds[i] = (int)result;
    }
    for (i = 0; i < order->n_fds; i++) {
        result = sys_call(SYS_dup3, order->fds[i], order->targets[i], 0, 0, 0, 0);
        if (result < 0) return failed(attempt, PSB_STEP_FDS, result, NULL);
    }
    return 0;
}

static int take_terminal(struct attempt *attempt) {
    long result;
    if (!(attempt->order->flags & PSB_EXEC_TERMINAL)) return 0;
    result = sys_call(SYS_ioctl, 0, TIOCSCTTY_, 0, 0, 0, 0);
    return result < 0 ? failed(attempt, PSB_STEP_TERMINAL, result, "controlling terminal") : 0;
}

/* Like execvp: the next candidate only when this one is not there; a refusal is remembered over an absence. */
static int exec_first(struct attempt *attempt) {
    const struct order *order = attempt->order;
    long worst = ENOENT_;
    const char *path = order->paths[0];
    uint32_t i;
    for (i = 0; i < order->n_paths; i++) {
        long result = sys_call(SYS_execve, order->paths[i], order->argv, order->envp, 0, 0, 0);
        if (result == ENOENT_ || result == ENOTDIR_) continue;
        worst = result;
        path = order->paths[i];
        if (result != EACCES_) break;
    }
    if (worst == ENOENT_) path = order->argv[0];
    return failed(attempt, PSB_STEP_EXEC, worst, path);
}

static int become_command(struct attempt *attempt) {
    const struct order *order = attempt->order;
    uint64_t none = 0;
    long result;

    if (attempt->cage->flags & PSB_SETUP_SUBREAPER) sys_call(SYS_prctl, PR_SET_PDEATHSIG, 9, 0, 0, 0, 0);
    result = sys_call(SYS_setsid, 0, 0, 0, 0, 0, 0);
    if (result < 0) return failed(attempt, PSB_STEP_SETSID, result, NULL);
    result = sys_call(SYS_chdir, order->cwd, 0, 0, 0, 0, 0);
    if (result < 0) return failed(attempt, PSB_STEP_CHDIR, result, order->cwd);
    sys_call(SYS_umask, attempt->cage->umask, 0, 0, 0, 0, 0);
    result = enter_landlock(attempt->cage); /* through a descriptor that may be placed over next */
    if (result < 0) return failed(attempt, PSB_STEP_LANDLOCK, result, NULL);
    if (place_descriptors(attempt)) return -1;
    if (take_terminal(attempt)) return -1;
    result = set_limits(order);
    if (result < 0) return failed(attempt, PSB_STEP_LIMIT, result, NULL);
    sys_call(SYS_rt_sigprocmask, 2, &none, 0, sizeof none, 0, 0);
    result = attempt->cage->flags & PSB_SETUP_FILTER_EARLY ? 0 : install_filter(attempt->cage);
    if (result < 0) return failed(attempt, PSB_STEP_SECCOMP, result, NULL);
    return exec_first(attempt);
}

/* ---- in cage-init ------------------------------------------------------------------------------------------------ */

/* clone(CLONE_VM) onto child_stack; the child runs become_command and never returns here. */
static long start_child(struct attempt *attempt) {
    const unsigned long flags = CLONE_VM | CLONE_CHILD_CLEARTID | 17 /* SIGCHLD */;
    uint64_t *top = (uint64_t *)(child_stack + CHILD_STACK - 16);
    long result;
    attempt->shared = 1;
    top[0] = (uint64_t)(uintptr_t)attempt;
#if defined(__x86_64__)
    register long r10 __asm__("r10") = (long)&attempt->shared;
    register long r8 __asm__("r8") = 0;
    __asm__ volatile("syscall\n"
                     "test %%rax, %%rax\n"
                     "jnz 1f\n"
                     "xor %%ebp, %%ebp\n"
                     "mov (%%rsp), %%rdi\n"
                     "call child_main\n"
                     "hlt\n"
                     "1:\n"
                     : "=a"(result)
                     : "a"((long)SYS_clone), "D"(flags), "S"(top), "d"(0L), "r"(r10), "r"(r8)
                     : "rcx", "r11", "memory");
#else
    register long x8 __asm__("x8") = SYS_clone;
    register long x0 __asm__("x0") = (long)flags;
    register long x1 __asm__("x1") = (long)top;
    register long x2 __asm__("x2") = 0;
    register long x3 __asm__("x3") = 0;
    register long x4 __asm__("x4") = (long)&attempt->shared;
    __asm__ volatile("svc 0\n"
                     "cbnz x0, 1f\n"
                     "mov x29, #0\n"
                     "ldr x0, [sp]\n"
                     "bl child_main\n"
                     "brk #0\n"
                     "1:\n"
                     : "+r"(x0)
                     : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4)
                     : "memory", "x30");
    result = x0;
#endif
    return result;
}

_Noreturn void child_main(struct attempt *attempt) __attribute__((used));
_Noreturn void child_main(struct attempt *attempt) {
    become_command(attempt);
    sys_exit(127);
}

static int host_is_gone(void) {
    struct pollfd events[2] = {{PSB_FD_CONTROL, 0, 0}, {PSB_FD_HOST, POLLIN, 0}}; /* POLLHUP needs no asking */
    int64_t now[2] = {0, 0};
    return sys_call(SYS_ppoll, events, 2, now, 0, 0, 0) > 0;
}

/* Until the child has execed or is gone, and with it our memory is our own again. A child that was stopped is sent on
 * its way at every glance. The other commands' wall times go on meanwhile. */
static void await_own_memory(struct attempt *attempt, int32_t pid) {
    const int64_t glance[2] = {0, GLANCE_NS};
    int glances = 0;
    for (;;) {
        if (!__atomic_load_n(&attempt->shared, __ATOMIC_ACQUIRE)) return;
        sys_call(SYS_futex, &attempt->shared, FUTEX_WAIT, 1, glance, 0, 0);
        if (!__atomic_load_n(&attempt->shared, __ATOMIC_ACQUIRE)) return;
        if (host_is_gone()) end_cage(attempt->cage, 0);
        enforce_walltime(attempt->cage);
        sys_call(SYS_kill, pid, SIGCONT_, 0, 0, 0, 0);
        if (++glances < GLANCES) continue;
        failed(attempt, PSB_STEP_EXEC, ETIMEDOUT_, attempt->order->argv[0]);
        sys_call(SYS_kill, pid, SIGKILL_, 0, 0, 0, 0);
    }
}

static struct command *free_place(struct cage *cage) {
    uint32_t i;
    for (i = 0; i < cage->n_commands; i++)
        if (!cage->commands[i].pid) return &cage->commands[i];
    return cage->n_commands < PSB_MAX_COMMANDS ? &cage->commands[cage->n_commands++] : NULL;
}

static void tell_failure(int fd, const struct psb_error *error) {
    struct psb_report record;
    fill(&record, 0, sizeof record);
    record.kind = PSB_REPORT_FAILED;
    record.error = *error;
    report(fd, &record);
}

static void tell_start(int fd, int32_t pid) {
    struct psb_report record;
    fill(&record, 0, sizeof record);
    record.kind = PSB_REPORT_STARTED;
    record.pid = pid;
    report(fd, &record);
}

/* Returns 1 when the report pipe now belongs to a running command. */
static int start(struct attempt *attempt, int report_fd) {
    struct cage *cage = attempt->cage;
    struct command *place = free_place(cage);
    long pid;
    if (!place) {
        failed(attempt, PSB_STEP_FORK, EAGAIN_, "too many commands in one cage");
        return 0;
    }
    pid = start_child(attempt);
    if (pid < 0) {
        failed(attempt, PSB_STEP_FORK, pid, NULL);
        return 0;
    }
    await_own_memory(attempt, (int32_t)pid);
    if (attempt->error.step) {
        sys_call(SYS_wait4, pid, 0, 0x40000000 /* __WALL */, 0, 0, 0);
        return 0;
    }
    place->pid = (int32_t)pid;
    place->report_fd = report_fd;
    place->oneshot = attempt->order->flags & PSB_EXEC_ONESHOT;
    start_clock(place, attempt->order->walltime_ms, attempt->order->grace_ms);
    place->id = attempt->order->id;
    if (!(attempt->order->flags & PSB_EXEC_QUIET)) tell_start(report_fd, place->pid);
    return 1;
}

static void *map(size_t size, int protection, int flags, int fd) {
    long at = sys_call(SYS_mmap, 0, size, protection, flags, fd, 0);
    return at < 0 && at > -4096 ? NULL : (void *)at;
}

static void parse_and_start(struct attempt *attempt, const struct psb_exec *exec, const void *body, int report_fd,
                            int *running) {
    static const char *few[FEW_POINTERS];
    size_t room = count_pointers(exec) * sizeof(char *);
    const char **pointers = few;
    if (count_pointers(exec) > PSB_MAX_BODY) { /* more strings than a body can hold */
        failed(attempt, PSB_STEP_ORDER, EINVAL_, NULL);
        return;
    }
    if (room > sizeof few) pointers = map(room, PROT_RW, MAP_PRIVATE_ | MAP_ANONYMOUS_, -1);
    if (!pointers)
        failed(attempt, PSB_STEP_ORDER, E2BIG_, NULL);
    else if (parse_order(exec, body, pointers, attempt->order))
        failed(attempt, PSB_STEP_ORDER, EINVAL_, NULL);
    else
        *running = start(attempt, report_fd);
    if (pointers && pointers != few) sys_call(SYS_munmap, pointers, room, 0, 0, 0, 0);
}

void run_command(struct cage *cage, struct message *message) {
    static struct order order;
    struct attempt attempt = {.cage = cage, .order = &order};
    const struct psb_exec *exec = &message->as.exec;
    const int has_body_fd = (exec->flags & PSB_EXEC_BODY_FD) != 0, first = 1 + has_body_fd;
    const void *body = exec + 1;
    int running = 0, i, report_fd = message->n_fds ? message->fds[0] : -1;

    if (check_exec(message->as.bytes, message->size) || message->n_fds != first + (int)exec->n_fds) {
        failed(&attempt, PSB_STEP_ORDER, EINVAL_, NULL);
    } else {
        for (i = 0; i < (int)exec->n_fds; i++) order.fds[i] = message->fds[first + i];
        if (has_body_fd) body = map(exec->body_size, PROT_READ_, MAP_PRIVATE_, message->fds[1]);
        if (!body)
            failed(&attempt, PSB_STEP_ORDER, E2BIG_, NULL);
        else
            parse_and_start(&attempt, exec, body, report_fd, &running);
        if (has_body_fd && body) sys_call(SYS_munmap, body, exec->body_size, 0, 0, 0, 0);
    }
    for (i = 1; i < message->n_fds; i++) sys_close(message->fds[i]);
    if (running || report_fd < 0) return;
    tell_failure(report_fd, &attempt.error);
    sys_close(report_fd);
}
