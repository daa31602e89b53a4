/* The watch over a limit of memory that no controller holds (pysandbox/live/watchdog.py): a thread adds up what the
 * cage uses, at the same pace. As long as that is less than the limit nobody looks closer. When it is not, or cannot be
 * told, everything in the cage is stopped and `noticed` is rung: Python looks then, and watches from there on. Until it
 * does, what goes on nevertheless is killed when it surely uses more. */
#ifndef PSB_LAUNCHER_WATCH_H
#define PSB_LAUNCHER_WATCH_H

#include <pthread.h>

#include "memory.h"

/* As `blame` in struct ending, and BLAMED of pysandbox/cli/beside.py. */
enum kill_reason {
    FOR_NOTHING = 0,
    FOR_ITS_MEMORY = 3,
    FOR_BEING_UNSEEN = 4
};

struct watch {
    struct memory memory;
    enum kill_reason kill_reason; /* the thread has killed the cage; to be read when that has ended */
    int control;
    int noticed; /* an eventfd: readable when the cage was stopped; -1: nothing is watched */
    int over;    /* an eventfd: the thread is to end */
    int runs;
    pthread_t thread;
};

/* Before the first order. 0, or -1. */
int open_watch(struct watch *watch, const struct kept *kept, int init_pid, int control);
/* The command is about to be ordered. 0, or -1. */
int begin_watch(struct watch *watch);
/* Returns when the thread has ended. Idempotent. */
void end_watch(struct watch *watch);

#endif
