/* The list of cages, and what it takes to have one: a loop, users, tellings. Takes the notifier's mutex. */
#ifndef PSB_GUESTS_H
#define PSB_GUESTS_H

#include "notifier.h"

/* A guest with its rules copied and without a loop; takes over the listener. NULL: *result is -errno, and the listener
 * is closed. */
struct guest *new_guest(struct psb_notifier *notifier, int listener, const struct psb_rules *rules, int *result);
int copy_rules(struct psb_rules *to, const struct psb_rules *from);
void free_rules(const struct psb_rules *rules);
/* Puts it into the list and starts its loop, which ends when the guest is `gone`: its number, or -errno, and then it is
 * freed. */
int64_t enter_guest(struct guest *guest, void *(*loop)(void *));
/* The last thing that a loop does. `failure`: -errno, why it could not go on. */
void leave_guest(struct guest *guest, int failure);
/* Takes it out of the list; the caller uses it from now on. NULL when there is none. */
struct guest *take_guest(struct psb_notifier *notifier, uint32_t number);
/* Waits until the loop of a guest that is gone has ended, but not for long; the caller uses it no more. */
void await_end(struct guest *guest);

/* One more, or one less, who uses it; the last one frees it. NULL when there is none. */
struct guest *find_guest(struct psb_notifier *notifier, uint32_t number);
void release_guest(struct guest *guest);

/* How many of its calls may wait with a descriptor of this process's: a share of what the process may open. */
uint32_t share_of(const struct guest *guest);

void tell(struct guest *guest, const struct psb_told *told);
/* Waits for one, of each guest in its turn: 1, or 0 when the notifier has stopped. */
int next_telling(struct psb_notifier *notifier, struct psb_told *told);

/* For the notifier's owner. */
struct psb_notifier *new_notifier(void);
void release_notifier(struct psb_notifier *notifier);

#endif
