/* The pairs of a relay, and the bytes that pass between their sides. The loop's thread alone calls these. */
#ifndef PSB_RELAY_PAIRS_H
#define PSB_RELAY_PAIRS_H

#include "relay_state.h"

/* The place in its bucket where the pair of this number is, or would be. */
struct pair **find_pair(struct psb_relay *relay, uint64_t number);
/* Closes both sides, by a reset unless both have ended; the pair is among the dead from then on. */
void end_pair(struct psb_relay *relay, struct pair *pair, uint32_t end);
/* Asks epoll for what there is to do for both sides, and ends the pair when there is nothing left to wait for. */
void watch_pair(struct psb_relay *relay, struct pair *pair);
/* Goes on with one side after these events of epoll(7). */
void serve_side(struct psb_relay *relay, struct side *side, uint32_t events);
/* `prefix` goes to `b` behind what was said before, as far as it goes now. */
void say_first(struct pair *pair, struct words *prefix);

#endif
