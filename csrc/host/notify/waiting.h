/* A call that waits for Python, looked at without the mutex of its cage. */
#ifndef PSB_WAITING_H
#define PSB_WAITING_H

#include "../emulate/call_facts.h"

/* Its facts, with a duplicate of the listener, to be closed by close_own: 0, -ENOENT or -errno. */
int hold_waiting(struct psb_notifier *notifier, uint64_t pending, struct call_facts *facts);

#endif
