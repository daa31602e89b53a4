/* Where a call may lead, by its facts and the rules alone. Nothing here touches a socket. */
#ifndef PSB_REACH_H
#define PSB_REACH_H

#include "call_facts.h"

/* A door of a cage without a network namespace: a TCP connect to its address is handed over through `sink` (door.h). */
struct door {
    uint8_t address[16];
    uint16_t port;
    int sink;
};

/* Where a call leads as rules and names are now. A zeroed one leads nowhere. */
struct route {
    uint32_t reach;          /* a bit of enum psb_reach, or 0: it is refused */
    int named;               /* the address stands for the real one */
    uint8_t real[16];        /* ... */
    const struct door *door; /* the address is that of this one; NULL: of none */
};

/* Whether sixteen bytes lie in the network of an endpoint. */
int within(const uint8_t *address, const struct psb_endpoint *endpoint);
/* How a call on an IP socket may reach its address: PSB_REACH_GRANT, PSB_REACH_LOCAL or 0. */
uint32_t reach_of(const struct call_facts *facts, const struct psb_rules *rules);
/* Whether the call may lead to `real`, for which its address stands. */
int may_stand_for(const struct call_facts *facts, const struct psb_rules *rules, const uint8_t *real);
/* The address that the route leads to, in the place of the one that was read. */
void set_destination(const struct call_facts *facts, const struct route *route, struct sockaddr_storage *to,
                     uint32_t *size);

#endif
