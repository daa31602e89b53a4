/* Connections of the dialler that become pairs of the relay: within its lock. */
#ifndef PSB_RELAY_DIAL_RELAY_H
#define PSB_RELAY_DIAL_RELAY_H

#include "dialled.h"

/* Takes the client over, also when it fails: the connection is over then. */
void relay_held(struct psb_relay *relay, struct dialled *dialled, int client, uint32_t flags, const char *said,
                size_t size);
/* The client that came with it is relayed, with what was read of it. */
void relay_at_once(struct psb_relay *relay, struct dialled **place);

#endif
