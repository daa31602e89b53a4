/* An eventfd(2). Where a write would block the counter is full: the loop is awake already. Where a read fails it is
 * empty. After any other error the write is tried again, since a lost one would leave a thread asleep for ever. */
#include "wakeup.h"

#include <errno.h>
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
        if (write(wakeup, &one, sizeof one) == sizeof one || errno == EAGAIN) return;
}

void clear_wakeup(int wakeup) {
    uint64_t rung;
    (void)!read(wakeup, &rung, sizeof rung);
}
