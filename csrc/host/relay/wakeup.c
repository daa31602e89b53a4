/* An eventfd(2). A write that fails is tried again, since a lost one would leave a thread asleep for ever; where it
 * would block each time the counter is full, and the loop awake already. Where a read fails it is empty. */
#include "wakeup.h"

#include <stdint.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define TRIES 8

int new_wakeup(void) {
    return eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
}

void wake_loop(int wakeup) {
    const uint64_t one = 1;
    int tries;
    for (tries = 0; tries < TRIES; tries++)
        if (write(wakeup, &one, sizeof one) == sizeof one) return;
}

void clear_wakeup(int wakeup) {
    uint64_t rung;
    (void)!read(wakeup, &rung, sizeof rung);
}
