#include "watch.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "../host/spawn/sched_slice.h"
#include "../host/spawn/signal_below.h"
#include "../host/spawn/thread.h"
#include "host.h"

/* As pysandbox/live/pace.py and watchdog.py have them. */
#define FIRST_LOOK 0.02
#define SOONEST 0.004
#define LATEST 0.2
#define FILL_RATE ((double)(2ull << 30))
#define MOST_PROCESSORS 4
#define GROWS (1u << 20)
#define COST_SHARE 10
#define URGENT_SHARE 3
#define NEAR 0.5
#define PATIENCE 0.5      /* that the cage may stand still without being seen */
#define SHORT_TURN 500000 /* nanoseconds of a processor that the thread wants at a time */

struct pace {
    uint64_t used;
    double at;
};

static double seconds(clockid_t clock) {
    struct timespec now;
    clock_gettime(clock, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* Seconds until the next look. `cost`: those of a processor that this one took. */
static double pause_after(struct pace *pace, uint64_t used, uint64_t limit, double cost) {
    const long processors = sysconf(_SC_NPROCESSORS_ONLN);
    const double now = seconds(CLOCK_MONOTONIC), since = now - pace->at, left = (double)(limit - used);
    const double fills = FILL_RATE * (double)(processors < 1                 ? 1
                                              : processors < MOST_PROCESSORS ? processors
                                                                             : MOST_PROCESSORS);
    double rate = 0, wanted, share;
    if (used > pace->used + GROWS && since > 0) rate = 2 * (double)(used - pace->used) / since;
    pace->used = used;
    pace->at = now;
    share = cost * (left < rate * NEAR ? URGENT_SHARE : COST_SHARE);
    wanted = left / (rate > fills ? rate : fills);
    if (wanted > LATEST) wanted = LATEST;
    if (wanted < share) wanted = share;
    return wanted > SOONEST ? wanted : SOONEST;
}

static int is_over(const struct watch *watch, double pause) {
    struct pollfd over = {watch->over, POLLIN, 0};
    const struct timespec most = {(time_t)pause, (long)((pause - (double)(time_t)pause) * 1e9)};
    return ppoll(&over, 1, &most, NULL) > 0;
}

/* By cage-init, which reaches all at once, and one by one: whichever comes first. */
static void signal_cage(const struct watch *watch, int number) {
    const struct psb_signal message = {PSB_MESSAGE_SIGNAL, 1, number, PSB_SIGNAL_ALL};
    while (psb_send(watch->control, &message, sizeof message, NULL, 0) == -EINTR) {}
    (void)psb_signal_below(watch->memory.proc, number);
}

/* The cage is stopped, and Python on its way. But a timer's SIGCONT lets a program go on, as does the end of a parent,
 * and a call that has begun goes on to fill memory: what surely is beyond the limit ends the cage at once. */
static void hold(struct watch *watch, double *unseen_since) {
    const uint64_t used = weigh_memory(&watch->memory);
    const double now = seconds(CLOCK_MONOTONIC);
    if (used != UNKNOWN)
        *unseen_since = now;
    else if (now - *unseen_since > PATIENCE)
        watch->kill_reason = FOR_BEING_UNSEEN;
    if (used != UNKNOWN && used > watch->memory.limit) watch->kill_reason = FOR_ITS_MEMORY;
    if (watch->kill_reason)
        signal_cage(watch, SIGKILL);
    else
        (void)psb_signal_below(watch->memory.proc, SIGSTOP);
}

static void *look(void *argument) {
    struct watch *watch = argument;
    struct pace pace = {0, -1e9};
    double pause = FIRST_LOOK, stopped = 0;
    psb_take_short_turns(SHORT_TURN);
    while (!watch->kill_reason && !is_over(watch, pause)) {
        const double began = seconds(CLOCK_THREAD_CPUTIME_ID);
        const uint64_t used = stopped > 0 ? 0 : add_up_memory(&watch->memory), one = 1;
        if (stopped > 0) {
            hold(watch, &stopped);
        } else if (used > watch->memory.limit) {
            signal_cage(watch, SIGSTOP);
            stopped = seconds(CLOCK_MONOTONIC);
            (void)!write(watch->noticed, &one, sizeof one);
        }
        pause = (seconds(CLOCK_THREAD_CPUTIME_ID) - began) * URGENT_SHARE;
        if (stopped <= 0) pause = pause_after(&pace, used, watch->memory.limit, pause / URGENT_SHARE);
        if (pause < SOONEST) pause = SOONEST;
    }
    return NULL;
}

int open_watch(struct watch *watch, const struct kept *kept, int init_pid, int control) {
    watch->noticed = watch->over = -1;
    watch->control = control;
    if (open_memory(&watch->memory, kept, init_pid)) return -1;
    if (watch->memory.proc < 0) return 0;
    watch->noticed = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    watch->over = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    return watch->noticed < 0 || watch->over < 0 ? -1 : 0;
}

int begin_watch(struct watch *watch) {
    if (watch->noticed < 0) return 0;
    if (start_joinable_thread(&watch->thread, look, watch, THREAD_STACK)) return -1;
    watch->runs = 1;
    return 0;
}

void end_watch(struct watch *watch) {
    const uint64_t one = 1;
    if (!watch->runs) return;
    watch->runs = 0;
    (void)!write(watch->over, &one, sizeof one);
    pthread_join(watch->thread, NULL);
}
