/* Some three hundred looks at what the plan depends on, and a disk that must have the record of the start, last a third
 * of a start. A thread sees to both while the cage is made. Until its permit is there that cage is a private one:
 * nothing of its command runs before it is ordered, and it is taken down when there is no permit. What a plan makes on
 * the host itself, a cgroup, is looked at before (main.c). */
#include "permit.h"

#include <errno.h>
#include <time.h>

#include "../host/spawn/thread.h"
#include "attend.h"
#include "holds.h"

#define LOOK_NS 50000000L

/* A look may never come back (a server of files that is gone), and whoever waits for it may be told to end: of what is
 * given up nothing is recorded, and what is being recorded is not given up. */
enum stage {
    LOOKS,
    RECORDS,
    GIVEN_UP
};

static int goes_on_to(struct permit *permit, int stage) {
    int looks = LOOKS;
    return __atomic_compare_exchange_n(&permit->stage, &looks, stage, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
}

static void *find_out(void *argument) {
    struct permit *permit = argument;
    permit->is_given = still_holds(permit->kept) && !open_trail(permit->trail, permit->kept) &&
                       goes_on_to(permit, RECORDS) && !record_start(permit->trail, permit->argv);
    return NULL;
}

void begin_permit(struct permit *permit) {
    permit->has_thread = !start_joinable_thread(&permit->thread, find_out, permit, THREAD_STACK);
    if (!permit->has_thread) find_out(permit);
}

/* Whether it has ended; waits a moment for that. */
static int has_found_out(const struct permit *permit) {
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += LOOK_NS;
    until.tv_sec += until.tv_nsec / 1000000000L;
    until.tv_nsec %= 1000000000L;
    return pthread_timedjoin_np(permit->thread, NULL, &until) != ETIMEDOUT;
}

int await_permit(struct permit *permit) {
    while (permit->has_thread && !is_given_up(permit)) {
        permit->has_thread = !has_found_out(permit);
        if (permit->has_thread && is_told_to_end()) (void)goes_on_to(permit, GIVEN_UP);
    }
    return !permit->has_thread && permit->is_given ? 0 : -1;
}

int is_given_up(const struct permit *permit) {
    return __atomic_load_n(&permit->stage, __ATOMIC_SEQ_CST) == GIVEN_UP;
}
