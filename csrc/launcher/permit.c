/* Some three hundred looks at what the plan depends on, and a disk that must have the record of the start, take a third
 * of a start. A thread sees to both while the cage is made: what is made meanwhile is a private one, in which nothing
 * of the cage's runs before it is ordered, and which is taken down when there is no permit. What a plan makes on the
 * host itself, a cgroup, is looked at before (main.c). */
#include "permit.h"

#include "../host/spawn/thread.h"
#include "holds.h"

static void *find_out(void *argument) {
    struct permit *permit = argument;
    permit->is_given = still_holds(permit->kept) && !open_trail(permit->trail, permit->kept) &&
                       !record_start(permit->trail, permit->argv);
    return NULL;
}

void seek_permit(struct permit *permit) {
    permit->is_sought = !start_joinable_thread(&permit->thread, find_out, permit);
    if (!permit->is_sought) find_out(permit);
}

int await_permit(struct permit *permit) {
    if (permit->is_sought && pthread_join(permit->thread, NULL)) return -1;
    permit->is_sought = 0;
    return permit->is_given ? 0 : -1;
}
