/* Whose turn it is in a relay's loop: pairs belong to cages, and where more than one cage has pairs, each is served a
 * few events in a round, in turns with the others. The loop's thread alone calls these. */
#ifndef PSB_HOST_RELAY_TURNS_H
#define PSB_HOST_RELAY_TURNS_H

#include <stddef.h>
#include <stdint.h>

#define MOST_EVENTS 64 /* of one round, which fits into a byte */

struct relay_cage {
    struct relay_cage *next;
    uint32_t number, pairs;
    uint32_t start;        /* of its events, the one that is served first in the next round */
    uint32_t first, count; /* in this round: where its events are among all that were grouped */
};

struct relay_turns {
    struct relay_cage *cages;
    struct relay_cage others; /* of every cage for which there was no memory */
    size_t count;
};

/* One more pair of this cage. Never fails. */
struct relay_cage *join_turns(struct relay_turns *turns, uint32_t number);
/* One pair less; the cage is gone with its last one. */
void leave_turns(struct relay_turns *turns, struct relay_cage *cage);
/* `of` says whose each event is. Writes the places of those that are served now, in their order; how many they are. The
 * others are still there in the next round (epoll(7), level-triggered). */
size_t take_turns(struct relay_turns *turns, struct relay_cage *const *of, size_t n, uint8_t *order);

#endif
