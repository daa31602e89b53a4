/* What the threads of a "cage" of the race harness call, one at random after the other; see calls.c. */
#ifndef PSB_RACE_CALLS_H
#define PSB_RACE_CALLS_H

#include <stdint.h>

/* Every call that a supervisor is asked about, or answers from a table, goes to the listener: its descriptor. */
int install_filter(void);
/* Never returns. `port` in network order: somebody listens there, on the loopback address. */
void *call_for_ever(uint16_t port, unsigned seed);

#endif
