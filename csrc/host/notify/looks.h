/* Looks into a caller's descriptor table, which the caller can make take long: without the cage's mutex. */
#ifndef PSB_LOOKS_H
#define PSB_LOOKS_H

#include "pending_calls.h"

/* For a pending call that wants one (WAIT_LOOK), and then resumes it. The caller holds the mutex and is a user of the
 * cage; meanwhile the mutex is free, so the call, or the cage, may be gone afterwards. */
void look_for(struct notified_cage *cage, uint64_t number);
/* For each of them. */
void look_for_all(struct notified_cage *cage);

#endif
