/* The queue of what Python is told of one cage. The caller holds the notifier's mutex, but for hand_over. */
#ifndef PSB_TELLINGS_H
#define PSB_TELLINGS_H

#include <stdint.h>

#include "behalf.h"
#include "notify.h"

#define MOST_TELLINGS 1024 /* of one cage: then its calls wait in the kernel until half of them are heard */

struct tellings {
    struct telling *first, *last;
    uint32_t count;
    uint64_t serial; /* of the last one that nobody waits for, so that Python knows when it has heard all of them */
};

/* What there is to tell of a call; the text and the ticket are the caller's to add. */
void describe(struct psb_told *told, enum psb_told_kind kind, uint32_t cage, uint32_t call, const struct deed *deed);

/* Whether it is in the queue now: a copy, no longer than its text. */
int queue_telling(struct tellings *tellings, const struct psb_told *told);
/* The first one, out of the queue; NULL when it is empty. */
struct telling *take_telling(struct tellings *tellings);
/* Copies it out, and frees it: 1. Of one that was taken, so without the mutex. */
int hand_over(struct telling *telling, struct psb_told *told);
void drop_tellings(struct tellings *tellings);

#endif
