/* Refusals are counted by what was refused, so that a flood of them costs the host nothing. */
#include "refusals.h"

#include <string.h>

static int same(const struct psb_denial *denial, uint32_t call, const struct deed *deed) {
    return denial->call == call && denial->number == deed->number && denial->protocol == deed->protocol &&
           denial->address_size == deed->address_size && !memcmp(denial->address, deed->address, sizeof deed->address);
}

int count_refusal(struct refusals *refusals, uint32_t call, const struct deed *deed) {
    struct psb_denial *denial;
    uint32_t i;
    for (i = 0; i < refusals->count; i++)
        if (same(&refusals->kinds[i], call, deed)) {
            refusals->kinds[i].count++;
            return 0;
        }
    if (refusals->count == REFUSALS) {
        refusals->lost[call]++;
        return 0;
    }
    denial = &refusals->kinds[refusals->count++];
    memset(denial, 0, sizeof *denial);
    denial->call = call;
    denial->number = deed->number;
    denial->pid = deed->tid;
    denial->protocol = deed->protocol;
    denial->address_size = deed->address_size;
    memcpy(denial->address, deed->address, sizeof denial->address);
    denial->count = 1;
    return 1;
}

int copy_refusals(const struct refusals *refusals, struct psb_denial *to, size_t room, uint64_t *lost) {
    const int count = (int)(refusals->count < room ? refusals->count : room);
    memcpy(to, refusals->kinds, (size_t)count * sizeof *to);
    memcpy(lost, refusals->lost, sizeof refusals->lost);
    return count;
}
