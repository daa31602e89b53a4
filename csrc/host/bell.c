/* A write that fails has met a full counter, and so a bell that rings; a read that fails, one that is silent. */
#include "bell.h"

#include <stdint.h>
#include <sys/eventfd.h>
#include <unistd.h>

int new_bell(void) {
    return eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
}

void ring(int bell) {
    const uint64_t one = 1;
    (void)!write(bell, &one, sizeof one);
}

void silence(int bell) {
    uint64_t rung;
    (void)!read(bell, &rung, sizeof rung);
}
