/* Refusals are counted by what was refused, so that a flood of them costs the host nothing. */
#include "refusals.h"

#include <string.h>

static int same(const struct psb_denial *denial, int session, uint32_t call, const struct call_facts *facts) {
    return denial->call == call && denial->session == session && denial->number == facts->number &&
           denial->protocol == facts->protocol && denial->address_size == facts->address.size &&
           !memcmp(denial->address, facts->address.bytes, sizeof facts->address.bytes);
}

int count_refusal(struct refusals *refusals, uint32_t call, const struct call_facts *facts) {
    const int session = session_of(&facts->caller);
    struct psb_denial *denial;
    uint32_t i;
    for (i = 0; i < refusals->count; i++)
        if (same(&refusals->kinds[i], session, call, facts)) {
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
    denial->number = facts->number;
    denial->pid = facts->caller.tid;
    denial->session = session;
    denial->protocol = facts->protocol;
    denial->address_size = facts->address.size;
    memcpy(denial->address, facts->address.bytes, sizeof denial->address);
    denial->count = 1;
    return 1;
}

int copy_refusals(const struct refusals *refusals, struct psb_denial *to, size_t room, uint64_t *lost) {
    const int count = (int)(refusals->count < room ? refusals->count : room);
    memcpy(to, refusals->kinds, (size_t)count * sizeof *to);
    memcpy(lost, refusals->lost, sizeof refusals->lost);
    return count;
}
