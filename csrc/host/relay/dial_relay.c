/* Connections of the dialler that become pairs of the relay. What was read of a client is sent at once: its server need
 * not wait for the loop to come round. */
#include "dial_relay.h"

#include <stdlib.h>
#include <sys/socket.h>

/* The highest bits of a cage's number fall off: cages that are 16 million apart take turns together. */
void relay_held(struct psb_relay *relay, struct dialled *dialled, int client, uint32_t flags, const char *said,
                size_t size) {
    const int64_t pair = psb_relay_add_dialled(
        relay, client, dialled->fd, flags | dialled->cage->number << PSB_RELAY_CAGE_BITS, said, size, dialled->number);
    dialled->fd = -1;
    dialled->state = pair > 0 ? DIALLED_RELAYED : DIALLED_OVER;
    if (pair > 0)
        dialled->pair = (uint64_t)pair;
    else
        dialled->owed |= OWED_OVER;
}

void relay_at_once(struct psb_relay *relay, struct dialled **place) {
    struct dialled *dialled = *place;
    char *said = dialled->said;
    const int client = dialled->client;
    const ssize_t sent =
        dialled->said_size ? send(dialled->fd, said, dialled->said_size, MSG_DONTWAIT | MSG_NOSIGNAL) : 0;
    const size_t gone = sent > 0 ? (size_t)sent : 0;
    dialled->said = NULL;
    dialled->client = -1;
    relay_held(relay, dialled, client, 0, said + gone, dialled->said_size - gone);
    free(said);
    tell_now(relay, place, 0);
}
