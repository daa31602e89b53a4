#ifndef PSB_CLOCK_H
#define PSB_CLOCK_H

#include <stdint.h>

/* CLOCK_MONOTONIC in milliseconds. */
uint64_t now_ms(void);

#endif
