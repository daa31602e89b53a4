/* A call that is emulated: it is begun, resumed, and ends with an answer. The caller holds the cage's mutex. */
#ifndef PSB_DISPATCH_H
#define PSB_DISPATCH_H

#include "notifier.h"
#include "pending_calls.h"

/* Goes on with a call; when it is done the caller has its answer. 0: it is over; 1: it waits, as a pending call.
 * `pending`: NULL for one that does not wait yet. */
int dispatch(struct notified_cage *cage, uint64_t id, struct emulated_call *req, struct pending_call *pending);
/* Resumes a pending call, if its caller still waits; then *place is the next pending call. */
void resume_call(struct notified_cage *cage, struct pending_call **place);

/* From now on the pending call waits for Python, until its deadline; the event is on its way. */
void await_python(struct notified_cage *cage, struct pending_call *pending, enum psb_event_kind kind);
/* The error of a call that would have to wait when too many wait already: as if the kernel had no memory for it. */
int no_place(const struct call_facts *facts);
/* A call that names files and goes on whatever is seen of it: no answer may take the kernel's place. */
int is_only_watched(const struct notified_cage *cage, uint32_t call);
/* Counts a refusal, and has the first of its kind event. */
void note_denial(struct notified_cage *cage, uint32_t call, const struct call_facts *facts);

#endif
