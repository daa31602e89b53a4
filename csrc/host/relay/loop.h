/* The loop of a relay: carries out orders, and serves events in turns. Its thread alone calls these. */
#ifndef PSB_RELAY_LOOP_H
#define PSB_RELAY_LOOP_H

#include "relay_state.h"

/* 0 when the relay was stopped, or -errno; pairs are as they were. */
int run_loop(struct psb_relay *relay);
/* What is left afterwards: the orders that came meanwhile, and an end for every pair. */
void finish_loop(struct psb_relay *relay);

#endif
