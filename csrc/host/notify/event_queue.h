/* The queue of what Python is told of one cage. The caller holds the notifier's mutex, but for pop_event. */
#ifndef PSB_EVENT_QUEUE_H
#define PSB_EVENT_QUEUE_H

#include <stdint.h>

#include "../emulate/call_facts.h"
#include "notify.h"

#define MOST_EVENTS 1024 /* of one cage: then its calls wait in the kernel until half of them are heard */

struct event_queue {
    struct queued_event *first, *last;
    uint32_t count;
    uint64_t serial; /* of the last one that nobody waits for, so that Python knows when it has heard all of them */
};

/* What there is to tell of a call; the text and the pending call are the caller's to add. */
void fill_event(struct psb_event *event, enum psb_event_kind kind, uint32_t cage, uint32_t call,
                const struct call_facts *facts);

/* Whether it is in the queue now: a copy, no longer than its text. */
int queue_event(struct event_queue *events, const struct psb_event *event);
/* The first one, out of the queue; NULL when it is empty. */
struct queued_event *take_event(struct event_queue *events);
/* Copies it out, and frees it: 1. Of one that was taken, so without the mutex. */
int pop_event(struct queued_event *entry, struct psb_event *event);
void drop_events(struct event_queue *events);

#endif
