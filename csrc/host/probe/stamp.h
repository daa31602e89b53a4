/* The present moment, as a file system would write it down (read by cffi, preprocessor lines stripped). */
#ifndef PSB_HOST_STAMP_H
#define PSB_HOST_STAMP_H

#include <stdint.h>

/* A stamp that every change so far is before, and no later one; nanoseconds by CLOCK_REALTIME, or -errno. `fd` is a
 * file of the caller's whose time of change tells nobody anything; -1: one is made for it, which takes ten times as
 * long. */
int64_t psb_stamp_now(int fd);

#endif
