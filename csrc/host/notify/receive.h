/* One call that the cage's filter hands over: taken from the kernel, read, and decided. */
#ifndef PSB_RECEIVE_H
#define PSB_RECEIVE_H

#include "notifier.h"

/* Takes the next call: it is answered, or waits, when this returns. 0, or -errno where none was received. The caller
 * holds the cage's mutex. */
int receive_call(struct notified_cage *cage);

#endif
