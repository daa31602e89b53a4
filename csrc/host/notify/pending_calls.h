/* Calls that cannot be answered yet: for Python, or for a socket. The caller holds the cage's mutex. */
#ifndef PSB_PENDING_CALLS_H
#define PSB_PENDING_CALLS_H

#include <stdint.h>

#include "../emulate/emulate.h"
#include "notifier.h"

#define MOST_PENDING 1024 /* of one cage; with a descriptor, share_of (cages.h) */

enum pending_state {
    WAIT_PYTHON,
    WAIT_SOCKET, /* until it is writable */
    WAIT_RETRY,
    WAIT_LOOK /* (looks.h) */
};

struct pending_call {
    uint64_t number;
    uint64_t id; /* the kernel's cookie */
    enum pending_state state;
    uint64_t deadline_ms;
    struct emulated_call req;
    struct pending_call *next;
};

/* Takes over what the call holds: 0; -ENOMEM, or -EAGAIN when this cage has as many as it may, and then it does not. */
int new_pending(struct notified_cage *cage, uint64_t id, const struct emulated_call *req, struct pending_call **made);
/* Where a pending call hangs in the list; what hangs there is NULL when there is none of this number. */
struct pending_call **find_pending(struct notified_cage *cage, uint64_t number);
/* The number of the cage that a pending call belongs to. */
uint32_t cage_of(uint64_t number);
/* Forgets a call, answered or not; *place is the next pending call then. */
void drop_pending(struct notified_cage *cage, struct pending_call **place);

#endif
