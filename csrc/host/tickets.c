/* The list of calls that wait; each of them holds up a thread of a cage. */
#include "tickets.h"

#include <stdlib.h>
#include <sys/epoll.h>

struct ticket **find_ticket(struct psb_notifier *notifier, uint64_t number) {
    struct ticket **place = &notifier->tickets;
    while (*place && (*place)->number != number) place = &(*place)->next;
    return place;
}

struct ticket *new_ticket(struct psb_notifier *notifier, const struct guest *guest, uint64_t id, uint32_t call,
                          const struct deed *deed) {
    struct ticket *ticket = calloc(1, sizeof *ticket);
    if (!ticket) return NULL;
    ticket->number = ++notifier->last_ticket;
    ticket->guest = guest->number;
    ticket->id = id;
    ticket->call = call;
    ticket->deed = *deed;
    ticket->next = notifier->tickets;
    notifier->tickets = ticket;
    return ticket;
}

void await_socket(struct psb_notifier *notifier, struct ticket *ticket) {
    struct epoll_event event = {.events = EPOLLOUT | EPOLLONESHOT, .data.u64 = TICKET_TAG | ticket->number};
    const int operation = ticket->awaited ? EPOLL_CTL_MOD : EPOLL_CTL_ADD;
    ticket->awaited = !epoll_ctl(notifier->epoll, operation, ticket->deed.socket, &event);
    ticket->state = ticket->awaited ? TICKET_SOCKET : TICKET_LATER;
}

/* Closing our duplicate would not take the socket out of the epoll set: the caller has it still. */
void drop_ticket(const struct psb_notifier *notifier, struct ticket **place) {
    struct ticket *ticket = *place;
    *place = ticket->next;
    if (ticket->awaited) epoll_ctl(notifier->epoll, EPOLL_CTL_DEL, ticket->deed.socket, NULL);
    end_deed(&ticket->deed);
    free(ticket);
}

void drop_tickets_of(struct psb_notifier *notifier, uint32_t cage) {
    struct ticket **place = &notifier->tickets;
    while (*place)
        if ((*place)->guest == cage)
            drop_ticket(notifier, place);
        else
            place = &(*place)->next;
}
