/* START HERE: the loop. Four things can happen: the host says something, a child ends, a wall time runs out, the host
 * is gone. */
#include "../uapi.h"
#include "init.h"

#define SIGNALS 64
#define START_TICK_MS 100

#ifndef PSB_ABI
#define PSB_ABI "unknown" /* built by hand: CMakeLists.txt says what it is */
#endif

/* Read from the file by pysandbox/runtime/self_check.py. */
static const char abi[] __attribute__((used)) = "pysandbox abi " PSB_ABI;

static struct cage cage;
static struct message message;

struct kernel_sigaction {
    void *handler;
    unsigned long flags;
    void *restorer;
    uint64_t mask;
};

/* Ignored signals survive exec (Python ignores SIGPIPE): commands start with the defaults. All are blocked here. */
static void reset_signals(void) {
    struct kernel_sigaction initial = {0};
    uint64_t all = ~0ULL;
    long number;
    sys_call(SYS_rt_sigprocmask, SIG_SETMASK, &all, 0, sizeof all, 0, 0);
    for (number = 1; number <= SIGNALS; number++) sys_call(SYS_rt_sigaction, number, &initial, 0, sizeof all, 0, 0);
}

/* Thousandths of the machine's memory that count against a cage's programs beside their own (proc(5)). */
#define OOM_RAISE 500
#define OOM_MOST 1000

/* When the machine is out of memory, the kernel ends what runs in a cage before anything of the host's: nothing else
 * holds the memory of a cage without a limit. Commands inherit it. A program without a cage (no filter) is like any
 * other of its user. Opened while our own /proc is ours, before `seal_init`; a cage may have none. */
static void be_the_first_to_go(void) {
    char text[24];
    unsigned long score = 0;
    long size, at;
    if (cage.filter_count && cage.oom_score >= 0) {
        size = sys_call(SYS_read, cage.oom_score, text, sizeof text, 0, 0, 0);
        for (at = 0; at < size && text[at] >= '0' && text[at] <= '9'; at++)
            score = score * 10 + (unsigned long)(text[at] - '0');
        score = score + OOM_RAISE < OOM_MOST ? score + OOM_RAISE : OOM_MOST;
        sys_write(cage.oom_score, text, text_number(text, score));
    }
    sys_close(cage.oom_score);
}

/* SETUP is the first message and comes once; anything else before it, or a second one, ends the cage. */
static int take_setup(void) {
    const struct psb_setup *setup = &message.as.setup;
    if (cage.set_up || check_setup(message.as.bytes, message.size)) return -1;
    cage.set_up = 1;
    cage.flags = setup->flags;
    cage.filter_count = setup->filter_count;
    cage.late_count = setup->late_count;
    memcpy(cage.filter, setup + 1, (cage.filter_count + cage.late_count) * sizeof cage.filter[0]);
    be_the_first_to_go();
    if ((cage.flags & PSB_SETUP_SUBREAPER) && sys_call(SYS_prctl, PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0, 0) < 0) return -1;
    if (cage.flags & PSB_SETUP_LISTENER) return install_listening_filter(&cage) < 0 ? -1 : 0;
    return install_filter(&cage) < 0 ? -1 : 0;
}

/* Waking an idle CPU takes as long as forking: the host says so before it has put the order together, and this looks
 * for it without sleeping, for a bounded number of tries (some 100 us). */
static void await_order(void) {
    struct pollfd control = {PSB_FD_CONTROL, POLLIN, 0};
    int64_t now[2] = {0, 0};
    int tries;
    for (tries = 0; tries < 256; tries++)
        if (sys_call(SYS_ppoll, &control, 1, now, 0, 0, 0)) return;
}

static void tell_written(void) {
    const struct psb_written answer = {PSB_MESSAGE_WRITTEN, 0, cage.blocks_written};
    sys_write(PSB_FD_CONTROL, &answer, sizeof answer);
}

static int handle_message(void) {
    if ((message.as.kind == PSB_MESSAGE_EXEC) != (message.n_fds > 0)) return -1; /* nobody to answer, or a leak */
    release_listener(&cage);
    switch (message.as.kind) {
    case PSB_MESSAGE_SETUP: return take_setup();
    case PSB_MESSAGE_EXEC:
        if (!cage.set_up) return -1;
        begin_command(&cage, &message);
        return 0;
    case PSB_MESSAGE_SIGNAL:
        if (!cage.set_up || check_signal(message.as.bytes, message.size)) return -1;
        signal_command(&cage, &message.as.signal);
        return 0;
    case PSB_MESSAGE_WAKE_HINT:
        if (message.size != sizeof message.as.kind) return -1;
        await_order();
        return 0;
    case PSB_MESSAGE_WRITTEN:
        if (!cage.set_up || message.size != sizeof message.as.kind) return -1;
        tell_written();
        return 0;
    }
    return -1;
}

/* The exec pipe hangs up before the child can be reaped, but may do so after we last looked. */
static void finish_start_if_over(void) {
    struct pollfd exec_pipe = {start_pipe(), POLLIN, 0};
    int64_t now[2] = {0, 0};
    if (exec_pipe.fd >= 0 && sys_call(SYS_ppoll, &exec_pipe, 1, now, 0, 0, 0) > 0) finish_start(0);
}

static void drain_child_signals(void) {
    uint8_t records[128 * 4];                                                 /* struct signalfd_siginfo is 128 bytes */
    sys_call(SYS_read, cage.child_signals, records, sizeof records, 0, 0, 0); /* poll tells again of what comes now */
    finish_start_if_over();
    reap(&cage);
}

/* In a PID namespace of its own nobody outlives the exit; elsewhere they must be gone before. */
static _Noreturn void end(int code) {
    if (cage.flags & PSB_SETUP_SUBREAPER) kill_everything(&cage);
    sys_exit(code);
}

/* Whether there is a message. One for which there is no memory now stays where it is; without a host all ends. */
static int has_message(void) {
    const int got = receive(PSB_FD_CONTROL, &message);
    if (got == -ENOMEM || got == -ENOBUFS || got == -EINTR) return 0;
    if (got <= 0) end(0);
    return 1;
}

static long wait_at_most(struct pollfd *events, int64_t milliseconds) {
    int64_t time[2] = {milliseconds / 1000, milliseconds % 1000 * 1000000};
    return sys_call(SYS_ppoll, events, 4, milliseconds < 0 ? NULL : time, 0, 0, 0);
}

/* A start under way is looked after every START_TICK_MS. */
static long wait_for(struct pollfd *events, int64_t milliseconds) {
    const int starting = start_pipe() >= 0;
    long ready;
    if (starting && (milliseconds < 0 || milliseconds > START_TICK_MS)) milliseconds = START_TICK_MS;
    ready = wait_at_most(events, milliseconds);
    if (!ready && starting) continue_start();
    return ready;
}

/* Nobody looks into it, and no command inherits a descriptor of its own. */
static long seal_init(void) {
    const long result = sys_call(SYS_prctl, PR_SET_DUMPABLE, 0, 0, 0, 0, 0);
    return result < 0 ? result : sys_call(SYS_close_range, 0, ~0U, CLOSE_RANGE_CLOEXEC, 0, 0, 0);
}

_Noreturn void init_main(void) {
    uint64_t child_signal = 1ULL << (SIGCHLD - 1);
    struct pollfd events[4] = {{PSB_FD_CONTROL, 0, 0}, {PSB_FD_HOST, POLLIN, 0}, {-1, POLLIN, 0}, {-1, POLLIN, 0}};
    long ready;

    cage.oom_score = (int32_t)sys_open("/proc/self/oom_score_adj", O_RDWR | O_CLOEXEC, 0);
    if (seal_init() < 0) end(1);
    reset_signals();
    cage.child_signals =
        (int32_t)sys_call(SYS_signalfd4, -1, &child_signal, sizeof child_signal, SFD_CLOEXEC | SFD_NONBLOCK, 0, 0);
    if (cage.child_signals < 0) end(1);
    events[2].fd = cage.child_signals;
    cage.umask = (uint32_t)sys_call(SYS_umask, 0, 0, 0, 0, 0, 0); /* the host's; commands get it back */

    for (;;) {
        /* A start under way uses the message: nothing more is read then, but a hang-up is always told. */
        events[3].fd = start_pipe();
        events[0].events = start_pipe() < 0 ? POLLIN : 0;
        ready = wait_for(events, enforce_walltime(&cage));
        if (ready < 0 && ready != -EINTR) end(1); /* deaf and blind, it must not live on: a filter around the host */
        if (ready < 0) continue;
        if (events[1].revents) end(0);
        if (events[0].revents && (start_pipe() >= 0 || (has_message() && handle_message()))) end(0);
        if (events[3].revents) finish_start_if_over();
        if (events[2].revents) drain_child_signals();
    }
}
