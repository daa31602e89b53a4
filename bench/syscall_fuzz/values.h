/* What an argument of a call may be; see values.c. */
#ifndef PSB_FUZZ_VALUES_H
#define PSB_FUZZ_VALUES_H

#include <stdint.h>

/* A count, a size, or an edge of one. */
uint64_t small(void);
long draw_argument(char letter);

#endif
