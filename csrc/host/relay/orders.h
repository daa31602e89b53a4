/* The orders of a relay, from any thread to its loop. */
#ifndef PSB_RELAY_ORDERS_H
#define PSB_RELAY_ORDERS_H

#include "relay_state.h"

/* NULL for want of memory, or when there is more to say than is kept. */
struct order *new_order(enum order_kind kind, uint64_t number, const char *prefix, size_t size);
void free_order(struct order *order);
/* The number of its pair. 0 when the loop has ended: the order is freed, and every pair has ended. */
uint64_t enqueue(struct psb_relay *relay, struct order *order);

/* For the loop: all that wait, first come first; and that so many are carried out. */
struct order *take_orders(struct psb_relay *relay, int *stopping);
void tell_done(struct psb_relay *relay, uint64_t count);
/* Waits until everything is done that was ordered before: 0, or -ETIMEDOUT. */
int await_done(struct psb_relay *relay, int timeout_ms);

#endif
