/* Bounds a system call that somebody else may turn into one that sleeps: between the two calls below a timer of this
 * thread interrupts whatever it does (EINTR), again and again. Where no timer is to be had, nothing happens. */
#ifndef PSB_INTERRUPT_H
#define PSB_INTERRUPT_H

void begin_interrupting(void);
void end_interrupting(void);

#endif
