/* A signal to all of a cage, by whoever holds its /proc (read by cffi, preprocessor lines stripped). */
#ifndef PSB_HOST_SIGNAL_BELOW_H
#define PSB_HOST_SIGNAL_BELOW_H

/* To every process of the PID namespace that this open /proc shows but its first, one by one: where cage-init, which
 * reaches all at once, may have to wait for a processor behind those that it is to reach. 0, or -errno: then to none.
 */
int psb_signal_below(int proc, int number);

#endif
