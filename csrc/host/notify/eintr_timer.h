/* Bounds a system call that somebody else may turn into one that sleeps: between the two calls below a timer of this
 * thread interrupts whatever it does (EINTR), again and again. Where no timer is to be had, nothing happens. */
#ifndef PSB_EINTR_TIMER_H
#define PSB_EINTR_TIMER_H

void arm_eintr_timer(void);
void end_interrupting(void);

#endif
