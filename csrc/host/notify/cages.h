/* The list of cages, and what it takes to have one: a loop, users, events. Takes the notifier's mutex. */
#ifndef PSB_CAGES_H
#define PSB_CAGES_H

#include "notifier.h"

/* A cage with its rules copied and without a loop; takes over the listener. NULL: *result is -errno, and the listener
 * is closed. */
struct notified_cage *new_cage(struct psb_notifier *notifier, int listener, const struct psb_rules *rules, int *result);
int copy_rules(struct psb_rules *to, const struct psb_rules *from);
void free_rules(const struct psb_rules *rules);
/* Puts it into the list and starts its loop, which ends when the cage is `gone`: its number, or -errno, and then it is
 * freed. */
int64_t enter_cage(struct notified_cage *cage, void *(*loop)(void *));
/* The two halves of that, with the notifier's mutex: its number; 0 or -errno. */
uint32_t list_cage(struct notified_cage *cage);
int start_loop(struct notified_cage *cage, void *(*loop)(void *));
/* The last thing that a loop does. `failure`: -errno, why it could not go on. */
void leave_cage(struct notified_cage *cage, int failure);
/* Takes it out of the list; the caller uses it from now on. NULL when there is none. */
struct notified_cage *take_cage(struct psb_notifier *notifier, uint32_t number);
/* Waits until the loop of a cage that is gone has ended, but not for long; the caller uses it no more. */
void await_end(struct notified_cage *cage);

/* Counts one more user, or one less; the last one frees the cage. NULL when there is none of this number. */
struct notified_cage *find_cage(struct psb_notifier *notifier, uint32_t number);
void release_cage(struct notified_cage *cage);

/* How many of its calls may wait with a descriptor of this process's: a share of what the process may open. */
uint32_t share_of(const struct notified_cage *cage);

void post_event(struct notified_cage *cage, const struct psb_event *event);
/* Waits for an event; the cages take turns. 1, or 0 when the notifier has stopped. */
int next_event(struct psb_notifier *notifier, struct psb_event *event);

/* For the notifier's owner. */
struct psb_notifier *new_notifier(void);
void release_notifier(struct psb_notifier *notifier);

#endif
