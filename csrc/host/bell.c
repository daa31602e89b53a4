/* A write that would block has met a full counter, and so a bell that rings; a read that fails, one that is silent. A
 * bell that was not rung is a thread that sleeps for ever: whatever else a write fails with, it is tried again. */
#include "bell.h"

#include <errno.h>
#include <stdint.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define TRIES 8

int new_bell(void) {
    return eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
}

void ring(int bell) {
    const uint64_t one = 1;
    int tries;
    for (tries = 0; tries < TRIES; tries++)
        if (write(bell, &one, sizeof one) == sizeof one || errno == EAGAIN) return;
}

void silence(int bell) {
    uint64_t rung;
    (void)!read(bell, &rung, sizeof rung);
}
