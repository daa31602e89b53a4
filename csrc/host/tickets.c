/* The list of calls that wait; each of them holds up a thread of a cage, and most a descriptor of this process. */
#include "tickets.h"

#include <errno.h>
#include <stdlib.h>

#include "guests.h"

#define GUEST_SHIFT 36

uint32_t guest_of(uint64_t number) {
    return (uint32_t)(number >> GUEST_SHIFT);
}

struct ticket **find_ticket(struct guest *guest, uint64_t number) {
    struct ticket **place = &guest->tickets;
    while (*place && (*place)->number != number) place = &(*place)->next;
    return place;
}

static int may_wait(const struct guest *guest, const struct deed *deed) {
    return guest->n_tickets < MOST_TICKETS && (deed->socket < 0 || guest->n_sockets < share_of(guest));
}

int new_ticket(struct guest *guest, uint64_t id, const struct deed *deed, struct ticket **made) {
    struct ticket *ticket = may_wait(guest, deed) ? calloc(1, sizeof *ticket) : NULL;
    *made = ticket;
    if (!ticket) return may_wait(guest, deed) ? -ENOMEM : -EAGAIN;
    ticket->number = (uint64_t)guest->number << GUEST_SHIFT | ++guest->last_ticket;
    ticket->id = id;
    ticket->deed = *deed;
    ticket->next = guest->tickets;
    guest->tickets = ticket;
    guest->n_tickets++;
    guest->n_sockets += deed->socket >= 0;
    return 0;
}

void drop_ticket(struct guest *guest, struct ticket **place) {
    struct ticket *ticket = *place;
    *place = ticket->next;
    guest->n_tickets--;
    guest->n_sockets -= ticket->deed.socket >= 0;
    end_deed(&ticket->deed, &guest->borrowed);
    free(ticket);
}
