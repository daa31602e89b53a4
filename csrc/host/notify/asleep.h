/* Cages that call rarely, if ever: one thread waits at the listeners of all of them, and each has a loop of its own
 * (loop.h) from its first call on. Most end without one. */
#ifndef PSB_ASLEEP_H
#define PSB_ASLEEP_H

#include "notifier.h"

/* Whether nothing but renames is handed over by a cage of these rules. */
int calls_rarely(const struct psb_rules *rules);
/* As enter_cage (cages.h), but the loop starts at its first call. Where that cannot be had: -errno, and nothing is
 * done. */
int64_t enter_asleep(struct notified_cage *cage, void *(*loop)(void *));
/* For a cage that was taken out of the list: whether it slept to its end, and nobody has to wait for a loop of it. The
 * caller uses it no more then. */
int leave_asleep(struct notified_cage *cage);
/* The thread ends, when `stopping` is set. With the notifier's mutex. */
void stop_watching(const struct psb_notifier *notifier);

#endif
