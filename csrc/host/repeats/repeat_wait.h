/* One wait for all descriptors of the reader (read by cffi, preprocessor lines stripped). */
#ifndef PSB_HOST_REPEAT_WAIT_H
#define PSB_HOST_REPEAT_WAIT_H

#include <stdint.h>

struct psb_repeats;

/* A descriptor that Python waits for. */
struct psb_repeat_event {
    int32_t fd;
    uint32_t events;
};

/* Waits for so long (below 0: for ever) and serves who is known; returns when there is something for Python: how many
 * of `events` are filled, or -errno. `unanswered`: calls of Python's own at the relay's thread. */
int psb_repeat_wait(struct psb_repeats *repeats, int64_t timeout_ms, uint32_t unanswered,
                    struct psb_repeat_event *events, uint32_t most);

#endif
