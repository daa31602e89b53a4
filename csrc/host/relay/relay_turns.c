/* A round is bounded for each cage, so that a hundred pairs that never run dry cost another cage's pair no more than a
 * few do. Which of a cage's events are served moves on from round to round: epoll may report them in the same order
 * each time. */
#include "relay_turns.h"

#include <stdlib.h>

#define TURNS 8 /* events of one cage in a round, where there are other cages */

static struct relay_cage **find(struct relay_turns *turns, uint32_t number) {
    struct relay_cage **place = &turns->cages;
    while (*place && (*place)->number != number) place = &(*place)->next;
    return place;
}

struct relay_cage *join_turns(struct relay_turns *turns, uint32_t number) {
    struct relay_cage *cage = *find(turns, number);
    if (!cage && (cage = calloc(1, sizeof *cage))) {
        *cage = (struct relay_cage){.next = turns->cages, .number = number};
        turns->cages = cage;
        turns->count++;
    }
    if (!cage) cage = &turns->others;
    cage->pairs++;
    return cage;
}

void leave_turns(struct relay_turns *turns, struct relay_cage *cage) {
    struct relay_cage **place = find(turns, cage->number);
    if (--cage->pairs || cage == &turns->others) return;
    *place = cage->next;
    turns->count--;
    free(cage);
}

/* The cages that have events, and `grouped`: the places of the events, those of a cage beside each other. */
static size_t group(struct relay_cage *const *of, size_t n, struct relay_cage **seen, uint8_t *grouped) {
    uint32_t at = 0;
    size_t i, cages = 0;
    for (i = 0; i < n; i++) of[i]->count = 0;
    for (i = 0; i < n; i++)
        if (!of[i]->count++) seen[cages++] = of[i];
    for (i = 0; i < cages; i++) {
        seen[i]->first = at;
        at += seen[i]->count;
        seen[i]->count = 0;
    }
    for (i = 0; i < n; i++) grouped[of[i]->first + of[i]->count++] = (uint8_t)i;
    return cages;
}

size_t take_turns(struct relay_turns *turns, struct relay_cage *const *of, size_t n, uint8_t *order) {
    struct relay_cage *seen[MOST_EVENTS];
    uint8_t grouped[MOST_EVENTS] = {0};
    const size_t cages = group(of, n, seen, grouped);
    const size_t most = turns->count > 1 ? TURNS : n;
    size_t turn, i, served = 0;
    for (turn = 0; turn < most; turn++)
        for (i = 0; i < cages; i++)
            if (turn < seen[i]->count)
                order[served++] = grouped[seen[i]->first + (seen[i]->start + turn) % seen[i]->count];
    for (i = 0; i < cages; i++) seen[i]->start += (uint32_t)most;
    return served;
}
