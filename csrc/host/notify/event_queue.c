/* A queue that is bounded for events that no caller waits for: Python may be slow to read them, and must not cost the
 * host its memory. An event that a caller waits for always has its place. */
#include "event_queue.h"

#include <stdlib.h>
#include <string.h>

struct queued_event {
    struct queued_event *next;
    struct psb_event event; /* allocated up to its text's end */
};

void fill_event(struct psb_event *event, enum psb_event_kind kind, uint32_t cage, uint32_t call,
                const struct call_facts *facts) {
    memset(event, 0, offsetof(struct psb_event, text) + 1);
    event->kind = kind;
    event->cage = cage;
    event->call = call;
    event->number = facts->number;
    event->pid = facts->caller.tid;
    event->session = session_of(&facts->caller);
    event->domain = facts->domain;
    event->protocol = facts->protocol;
    event->address_size = facts->address.size;
    memcpy(event->address, facts->address.bytes, sizeof event->address);
    memcpy(event->args, facts->args, sizeof event->args);
}

static size_t size_of(const struct psb_event *event) {
    return offsetof(struct psb_event, text) + event->text_size + 1;
}

int queue_event(struct event_queue *events, const struct psb_event *event) {
    const int waits = event->kind == PSB_EVENT_ASKED || event->kind == PSB_EVENT_NOT_REPLACEABLE;
    struct queued_event *entry;
    if (!waits && events->count >= 2 * MOST_EVENTS) return 0;
    entry = malloc(offsetof(struct queued_event, event) + size_of(event));
    if (!entry) return 0; /* what waits is refused at its deadline */
    memcpy(&entry->event, event, size_of(event));
    if (!waits) entry->event.serial = ++events->serial;
    entry->next = NULL;
    if (events->last)
        events->last->next = entry;
    else
        events->first = entry;
    events->last = entry;
    events->count++;
    return 1;
}

struct queued_event *take_event(struct event_queue *events) {
    struct queued_event *entry = events->first;
    if (!entry) return NULL;
    events->first = entry->next;
    if (!events->first) events->last = NULL;
    events->count--;
    return entry;
}

int pop_event(struct queued_event *entry, struct psb_event *event) {
    memcpy(event, &entry->event, size_of(&entry->event));
    free(entry);
    return 1;
}

void drop_events(struct event_queue *events) {
    struct queued_event *entry;
    while ((entry = take_event(events))) free(entry);
}
