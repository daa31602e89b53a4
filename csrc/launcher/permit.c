/* Some three hundred looks at what the plan depends on, and a disk that must have the record of the start, last a third
 * of a start. A thread sees to both while the cage is made. Until its permit is there that cage is a private one:
 * nothing of its command runs before it is ordered, and it is taken down when there is no permit. What a plan makes on
 * the host itself, a cgroup, is looked at before (main.c). */
#include "permit.h"

#include "../host/spawn/thread.h"
#include "holds.h"

static void *find_out(void *argument) {
    struct permit *permit = argument;
    permit->is_given = still_holds(permit->kept) && !open_trail(permit->trail, permit->kept) &&
                       !record_start(permit->trail, permit->argv);
    return NULL;
}

void begin_permit(struct permit *permit) {
    permit->has_thread = !start_joinable_thread(&permit->thread, find_out, permit);
    if (!permit->has_thread) find_out(permit);
}

int await_permit(struct permit *permit) {
    if (permit->has_thread && pthread_join(permit->thread, NULL)) return -1;
    permit->has_thread = 0;
    return permit->is_given ? 0 : -1;
}
