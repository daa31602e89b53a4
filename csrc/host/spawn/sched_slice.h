/* Short turns on the CPU (read by cffi, preprocessor lines stripped). */
#ifndef PSB_HOST_SCHED_SLICE_H
#define PSB_HOST_SCHED_SLICE_H

#include <stdint.h>

/* The calling thread from now on wants that long a turn on the CPU, and so gets it sooner. 0, or -errno. */
int psb_take_short_turns(uint64_t nanoseconds);

#endif
