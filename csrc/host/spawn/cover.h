/* Closing a path of a cage that runs (read by cffi, preprocessor lines stripped). */
#ifndef PSB_HOST_COVER_H
#define PSB_HOST_COVER_H

#include <stdint.h>

/* Covers what `target` (O_PATH, of a running cage) is with an unreadable file or directory, by a mount in its mount
 * namespace. `user`: whom the cage is outside, where root has started it as another; else 0. 0, or -errno. */
int psb_cover(int init_pidfd, int target, int directory, uint32_t user);

#endif
