/* A system call that must not put its thread to sleep, although a caged process may have arranged that it does: a timer
 * interrupts it, again and again until it returns (EINTR). */
#ifndef PSB_INTERRUPT_H
#define PSB_INTERRUPT_H

#include <signal.h>
#include <time.h>

struct interrupt {
    timer_t timer;
    sigset_t before;
    int armed;
};

/* From now on this thread does not sleep for much longer than 20 ms at a time. */
void begin_interrupting(struct interrupt *interrupt);
void end_interrupting(struct interrupt *interrupt);

#endif
