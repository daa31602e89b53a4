/* The ledger of what one cage was refused: each kind of call once for each session, with a count. Commands have each a
 * session of their own, and no process comes into another one's. The caller holds the cage's
 * mutex. */
#ifndef PSB_REFUSALS_H
#define PSB_REFUSALS_H

#include <stddef.h>
#include <stdint.h>

#include "../emulate/call_facts.h"
#include "notify.h"

#define REFUSALS 64

struct refusals {
    struct psb_denial kinds[REFUSALS];
    uint32_t count;
    uint64_t lost[PSB_CALL_CLASSES]; /* refused when there was no room for another kind */
};

/* Whether it is the first of its kind that there was room for. */
int count_refusal(struct refusals *refusals, uint32_t call, const struct call_facts *facts);
/* How many kinds were copied, `room` at most. */
int copy_refusals(const struct refusals *refusals, struct psb_denial *to, size_t room, uint64_t *lost);

#endif
