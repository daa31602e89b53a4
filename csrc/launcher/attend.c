/* A signal to us is the command's: it arrives there as what it is. SIGTERM and SIGHUP also mean that it is to end:
 * SIGKILL follows after the grace period, or at the next signal. SIGINT may mean anything to a program that reads it,
 * so it alone ends nothing; three within a second do. A stop (SIGTSTP, from the keyboard too where there is no terminal
 * of the cage's; else csrc/launcher/stop_key.c) is the command's first, and ours with it; SIGCONT lets both go on. */
#include "attend.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "exit_codes.h"
#include "host.h"
#include "stop_key.h"

#define SOON_MS 1000
#define LATE_MS 60000 /* for whoever reads our terminal, or has stopped it, to go on */
#define PATIENCE_MS 2000
#define LOOK_MS 200
#define HEED_MS 50 /* for whoever puts something in order before it stops */
#define BROKEN_PIPE (128 + 13)
#define OWN 4 /* descriptors that are polled here */

static const int TAKEN[] = {SIGTERM, SIGHUP, SIGINT, SIGQUIT, SIGUSR1, SIGUSR2, SIGWINCH, SIGTSTP, SIGCONT};
#define N_TAKEN (sizeof TAKEN / sizeof *TAKEN)

/* Who does not read what we write, and a limit on the size of the trail, are errors, and no reason to end. */
static const int IGNORED[] = {SIGPIPE, SIGXFSZ};
#define N_IGNORED (sizeof IGNORED / sizeof *IGNORED)

static int signal_pipe[2] = {-1, -1};
static volatile sig_atomic_t told_to_end;
static struct sigaction before[N_TAKEN], ignored_before[N_IGNORED], child_before;

static int ends(int number) {
    return number == SIGTERM || number == SIGHUP || number == SIGINT;
}

static void ring(int number) {
    const int error = errno;
    const unsigned char byte = (unsigned char)number;
    if (ends(number)) told_to_end = 1;
    (void)!write(signal_pipe[1], &byte, 1);
    errno = error;
}

int take_signals(void) {
    struct sigaction action = {.sa_handler = ring, .sa_flags = SA_RESTART}, ignore = {.sa_handler = SIG_IGN};
    const struct sigaction usual = {.sa_handler = SIG_DFL};
    size_t i;
    if (pipe2(signal_pipe, O_NONBLOCK | O_CLOEXEC) < 0) return -1;
    sigaction(SIGCHLD, &usual, &child_before); /* ignored, it leaves nobody to wait for, and no exit code */
    sigfillset(&action.sa_mask);
    for (i = 0; i < N_IGNORED; i++) sigaction(IGNORED[i], &ignore, &ignored_before[i]);
    for (i = 0; i < N_TAKEN; i++)
        if (!sigaction(TAKEN[i], NULL, &before[i]) && before[i].sa_handler != SIG_IGN)
            sigaction(TAKEN[i], &action, NULL);
    return 0;
}

void give_back_signals(void) {
    unsigned char number;
    size_t i;
    for (i = 0; i < N_TAKEN; i++) sigaction(TAKEN[i], &before[i], NULL);
    for (i = 0; i < N_IGNORED; i++) sigaction(IGNORED[i], &ignored_before[i], NULL);
    sigaction(SIGCHLD, &child_before, NULL);
    while (read(signal_pipe[0], &number, 1) == 1) raise(number);
}

int is_told_to_end(void) {
    return told_to_end;
}

/* ---- what the command is told ------------------------------------------------------------------------------------ */

static void tell(const struct attendance *attendance, int number, enum psb_signal_scope scope) {
    const struct psb_signal message = {PSB_MESSAGE_SIGNAL, 1, number, scope};
    while (psb_send(attendance->control, &message, sizeof message, NULL, 0) == -EINTR) {} /* a dead cage is no error */
}

/* Politely, by this signal, and when it is being ended already, at once. */
static void stop(struct attendance *attendance, int cause, int number) {
    if (attendance->cause != NO_CAUSE) {
        attendance->insisted = attendance->ended = 1;
        tell(attendance, SIGKILL, PSB_SIGNAL_ALL);
        return;
    }
    attendance->cause = cause;
    attendance->deadline = now_ms() + attendance->grace_ms;
    attendance->trail->blame = cause == OUT_OF_TIME ? BLAME_TIMEOUT : BLAME_CANCELLED;
    tell(attendance, number, PSB_SIGNAL_ONE);
}

/* A timer of the cage's can continue what was stopped, and then nobody would hold its memory: who holds it goes on. */
static int may_stop(const struct attendance *attendance) {
    return !attendance->services->watch.runs;
}

/* The command leads a session of its own, and by default the kernel passes a SIGTSTP over there: so it is stopped. Job
 * control is the business of the cage's terminal, where it has one. */
static void stop_with_it(const struct attendance *attendance) {
    tell(attendance, SIGTSTP, PSB_SIGNAL_ONE);
    if (attendance->terminal.pty >= 0 || !may_stop(attendance)) return;
    poll(NULL, 0, HEED_MS);
    tell(attendance, SIGSTOP, PSB_SIGNAL_ALL);
    raise(SIGSTOP);
}

/* What was typed behind it is nobody's. The command goes on by our SIGCONT, as after any stop of ours. */
static void stop_by_key(struct attendance *attendance, size_t typed) {
    attendance->terminal.typed = typed;
    send_keys(&attendance->terminal);
    tell(attendance, SIGSTOP, PSB_SIGNAL_ALL);
    leave_raw_mode_empty();
    stop_our_group();
}

static int is_impatient(struct attendance *attendance) {
    int64_t *at = attendance->interrupts;
    at[0] = at[1];
    at[1] = at[2];
    at[2] = now_ms();
    return at[0] && at[2] - at[0] < SOON_MS;
}

static void take_signal(struct attendance *attendance, int number) {
    if (number == SIGWINCH && attendance->terminal.pty >= 0) {
        copy_size(1, attendance->terminal.pty);
    } else if (number == SIGTSTP) {
        stop_with_it(attendance);
    } else if (number == SIGCONT && is_held(attendance->services)) {
        return; /* it goes on when Python has looked at it */
    } else if (number == SIGWINCH || number == SIGCONT) {
        if (attendance->terminal.pty >= 0) copy_size(1, attendance->terminal.pty);
        tell(attendance, number, number == SIGCONT ? PSB_SIGNAL_ALL : PSB_SIGNAL_ONE);
    } else if (number == SIGTERM || number == SIGHUP || attendance->cause != NO_CAUSE) {
        stop(attendance, 128 + number, number);
    } else {
        tell(attendance, number, PSB_SIGNAL_ONE);
        if (number != SIGINT || !is_impatient(attendance)) return;
        stop(attendance, 128 + number, number);
        stop(attendance, 128 + number, SIGTERM);
    }
}

static void read_signals(struct attendance *attendance) {
    unsigned char number;
    while (read(signal_pipe[0], &number, 1) == 1) take_signal(attendance, number);
}

/* ---- the loop ---------------------------------------------------------------------------------------------------- */

static int patience(const struct attendance *attendance) {
    const int64_t deadline = attendance->deadline, later = attendance->later, now = now_ms();
    const int64_t first = !deadline ? later : !later ? deadline : deadline < later ? deadline : later;
    const int look = attendance->terminal.pty >= 0 && is_left() ? LOOK_MS : -1;
    if (!first || (look > 0 && first > now + look)) return look;
    return first <= now ? 0 : first - now > 1000000 ? 1000000 : (int)(first - now);
}

static void serve_terminal(struct attendance *attendance, int on_pty, int on_keys) {
    struct terminal *terminal = &attendance->terminal;
    size_t stop_at;
    int shown = 1;
    if (on_keys) {
        take_keys(terminal);
        stop_at = may_stop(attendance) ? typed_to_stop(terminal) : 0;
        if (stop_at)
            stop_by_key(attendance, stop_at);
        else
            send_keys(terminal);
    }
    if (on_pty & POLLOUT) send_keys(terminal);
    if (on_pty & ~POLLOUT) shown = show(terminal);
    if (shown < 0) stop(attendance, BROKEN_PIPE, SIGTERM); /* as for any program that writes to a closed pipe */
    if (shown <= 0) terminal->pty = -1;
}

static void look_at_the_clock(struct attendance *attendance) {
    if (attendance->deadline && now_ms() >= attendance->deadline) stop(attendance, OUT_OF_TIME, SIGTERM);
    if (attendance->later && !attendance->ended && now_ms() >= attendance->later) {
        attendance->later = 0;
        attendance->act_later(attendance->argument);
    }
}

void attend(struct attendance *attendance) {
    const struct terminal *terminal = &attendance->terminal;
    struct streams *streams = attendance->streams;
    while (!attendance->ended) {
        const short out = terminal->sent < terminal->typed ? POLLOUT : 0;
        struct pollfd all[OWN + MOST_RELAYS + MOST_POLLED] = {
            {attendance->report, POLLIN, 0},
            {signal_pipe[0], POLLIN, 0},
            {terminal->pty, (short)(POLLIN | out), 0},
            {wants_keys(terminal) ? 0 : -1, POLLIN, 0},
        };
        struct pollfd *relays = all + OWN, *served = relays + MOST_RELAYS;
        const nfds_t others = poll_services(attendance->services, served);
        poll_streams(streams, relays);
        if (poll(all, OWN + MOST_RELAYS + others, patience(attendance)) > 0) {
            heed_services(attendance->services, served, others);
            heed_streams(streams, relays);
            if (all[0].revents) attendance->ended = 1;
            if (all[1].revents) read_signals(attendance);
            if (all[2].revents || all[3].revents) serve_terminal(attendance, all[2].revents, all[3].revents);
        }
        look_at_the_clock(attendance);
    }
}

static int is_to_end(void) {
    unsigned char number;
    int result = 0;
    while (read(signal_pipe[0], &number, 1) == 1) result |= ends(number);
    return result;
}

/* Whoever reads a pipe may take as long as he likes (a pager); a signal to us ends that. */
void let_through(const struct attendance *attendance) {
    struct streams *streams = attendance->streams;
    int i;
    for (i = 0; i < streams->n_relays; i++) {
        struct relay *relay = &streams->relays[i];
        const int64_t most = !relay->is_pipe ? LATE_MS : attendance->cause != NO_CAUSE ? PATIENCE_MS : INT64_MAX / 2;
        const int64_t end = now_ms() + most;
        while (!is_flushed(relay, LOOK_MS) && now_ms() < end && !is_to_end()) {}
    }
}

int code_after(const struct attendance *attendance, int own) {
    const int by = attendance->cause - 128;
    if (attendance->cause == NO_CAUSE || ((by == SIGTERM || by == SIGHUP) && !attendance->insisted)) return own;
    return attendance->cause;
}
