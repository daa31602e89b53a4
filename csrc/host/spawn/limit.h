/* The limits of a caged process (read by cffi, preprocessor lines stripped). */
#ifndef PSB_HOST_LIMIT_H
#define PSB_HOST_LIMIT_H

#include <stdint.h>

/* prlimit(2) on a process of a cage: *hard is the hard limit that it had; with `set` both become `value`. 0, or -errno.
 */
int psb_limit(int pid, int resource, int set, uint64_t value, uint64_t *hard);

#endif
