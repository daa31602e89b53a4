/* Calls that cannot be answered yet: for Python, or for a socket. The caller holds the guest's mutex. */
#ifndef PSB_TICKETS_H
#define PSB_TICKETS_H

#include <stdint.h>

#include "behalf.h"
#include "notifier.h"

#define MOST_TICKETS 1024 /* of one cage; with a descriptor, share_of (guests.h) */

enum ticket_state {
    TICKET_PYTHON,
    TICKET_SOCKET, /* until it is writable */
    TICKET_LATER
};

struct ticket {
    uint64_t number;
    uint64_t id; /* the kernel's cookie */
    enum ticket_state state;
    uint64_t deadline_ms;
    struct deed deed;
    struct ticket *next;
};

/* Takes over what the deed holds: 0; -ENOMEM, or -EAGAIN when this cage has as many as it may, and then it does not. */
int new_ticket(struct guest *guest, uint64_t id, const struct deed *deed, struct ticket **made);
/* Where a ticket hangs in the list; what hangs there is NULL when there is none of this number. */
struct ticket **find_ticket(struct guest *guest, uint64_t number);
/* Of a ticket's number: whose it is. */
uint32_t guest_of(uint64_t number);
/* Forgets a call, answered or not; *place is the next ticket then. */
void drop_ticket(struct guest *guest, struct ticket **place);

#endif
