/* Calls that cannot be answered yet: for Python, or for a socket. The caller holds the notifier's mutex. */
#ifndef PSB_TICKETS_H
#define PSB_TICKETS_H

#include <stdint.h>

#include "behalf.h"
#include "notifier.h"

#define TICKET_TAG (1ULL << 62) /* in the epoll set, beside the ticket's number */

enum ticket_state {
    TICKET_PYTHON,
    TICKET_SOCKET,
    TICKET_LATER
};

struct ticket {
    uint64_t number;
    uint32_t guest;
    uint64_t id; /* the kernel's cookie */
    enum ticket_state state;
    uint64_t deadline_ms;
    uint32_t call;
    int awaited; /* its socket is in the epoll set */
    struct deed deed;
    struct ticket *next;
};

/* Takes over what the deed holds; NULL, and then it does not, when there is no memory. */
struct ticket *new_ticket(struct psb_notifier *notifier, const struct guest *guest, uint64_t id, uint32_t call,
                          const struct deed *deed);
/* Where a ticket hangs in the list; what hangs there is NULL when there is none of this number. */
struct ticket **find_ticket(struct psb_notifier *notifier, uint64_t number);
/* Has the loop take the call up when its socket is writable, or a while later. */
void await_socket(struct psb_notifier *notifier, struct ticket *ticket);
/* Forgets a call, answered or not; *place is the next ticket then. */
void drop_ticket(const struct psb_notifier *notifier, struct ticket **place);
void drop_tickets_of(struct psb_notifier *notifier, uint32_t cage);

#endif
