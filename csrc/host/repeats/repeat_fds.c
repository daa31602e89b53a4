/* An array by descriptor: the kernel gives the lowest that is free, so it stays short. */
#include "repeat_fds.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

int know_fd(struct psb_repeats *repeats, int fd, struct repeat_fd who) {
    const size_t needed = (size_t)fd + 1, wanted = needed * 2;
    struct repeat_fd *larger;
    if (needed > repeats->n_fds) {
        if (who.kind == REPEAT_NOBODY) return 0;
        larger = realloc(repeats->fds, wanted * sizeof *larger);
        if (!larger) return -ENOMEM;
        memset(larger + repeats->n_fds, 0, (wanted - repeats->n_fds) * sizeof *larger);
        repeats->fds = larger;
        repeats->n_fds = wanted;
    }
    repeats->fds[fd] = who;
    return 0;
}

struct repeat_fd who_has(const struct psb_repeats *repeats, int fd) {
    return fd >= 0 && (size_t)fd < repeats->n_fds ? repeats->fds[fd] : (struct repeat_fd){.kind = REPEAT_NOBODY};
}
