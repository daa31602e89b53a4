/* Starting a cage (read by cffi, preprocessor lines stripped). */
#ifndef PSB_HOST_SPAWN_H
#define PSB_HOST_SPAWN_H

#include "../../abi.h"

struct psb_opened {
    int32_t pid;     /* of cage-init, in the caller's PID namespace */
    int32_t pidfd;   /* close-on-exec */
    int32_t control; /* close-on-exec; closing it ends the cage */
    struct psb_error error;
};

/* Carries out a plan and leaves cage-init waiting for its first message. Any thread may call this, and it holds no
 * lock. 0; or -1, and then nothing is left behind and opened->error says which step failed. */
int psb_open_cage(const struct psb_plan *plan, int init_fd, struct psb_opened *opened);

#endif
