/* A cage, with its mutex, for every thread but its loop. */
#ifndef PSB_VISITS_H
#define PSB_VISITS_H

#include "notifier.h"
#include "pending_calls.h"

/* The loop lets it have the mutex then, however many calls come in. */
void visit(struct notified_cage *cage);
void leave(struct notified_cage *cage);
/* NULL, or with its mutex held and one user more. */
struct notified_cage *visit_number(struct psb_notifier *notifier, uint32_t number);
/* With its mutex held, where a call waits for Python; NULL where none of this number does. */
struct notified_cage *visit_pending(struct psb_notifier *notifier, uint64_t number, struct pending_call ***place);
/* The facts of a call that waits for Python, with a duplicate of the listener, to be closed by close_own, and no mutex:
 * 0, -ENOENT or -errno. */
int hold_waiting(struct psb_notifier *notifier, uint64_t pending, struct call_facts *facts);

#endif
