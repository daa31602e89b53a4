/* The list of calls that wait; each of them holds up a thread of a cage, and most a descriptor of this process. */
#include "pending_calls.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cages.h"

#define CAGE_SHIFT 36

uint32_t cage_of(uint64_t number) {
    return (uint32_t)(number >> CAGE_SHIFT);
}

struct pending_call **find_pending(struct notified_cage *cage, uint64_t number) {
    struct pending_call **place = &cage->pending_calls;
    while (*place && (*place)->number != number) place = &(*place)->next;
    return place;
}

static int may_wait(const struct notified_cage *cage, const struct emulated_call *req) {
    return cage->n_pending < MOST_PENDING && (req->socket < 0 || cage->n_sockets < share_of(cage));
}

int new_pending(struct notified_cage *cage, uint64_t id, const struct emulated_call *req, struct pending_call **made) {
    struct pending_call *pending = may_wait(cage, req) ? calloc(1, sizeof *pending) : NULL;
    *made = pending;
    if (!pending) return may_wait(cage, req) ? -ENOMEM : -EAGAIN;
    pending->number = (uint64_t)cage->number << CAGE_SHIFT | ++cage->last_pending;
    pending->id = id;
    memcpy(&pending->req, req, sizeof pending->req);
    pending->next = cage->pending_calls;
    cage->pending_calls = pending;
    cage->n_pending++;
    cage->n_sockets += req->socket >= 0;
    return 0;
}

void drop_pending(struct notified_cage *cage, struct pending_call **place) {
    struct pending_call *pending = *place;
    *place = pending->next;
    cage->n_pending--;
    cage->n_sockets -= pending->req.socket >= 0;
    end_emulated_call(&pending->req, &cage->borrowed);
    free(pending);
}
