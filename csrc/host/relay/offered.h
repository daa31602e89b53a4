/* Connections whose client was promised one (SOCKS, CONNECT), and speaks when it is there. */
#ifndef PSB_RELAY_OFFERED_H
#define PSB_RELAY_OFFERED_H

#include "dialled.h"

/* A copy, which ends with a zero: 0 where it is too long, or for want of memory. */
int keep_words(const struct record_field *said, char **words, size_t *size);
/* When it is connected: whether it goes on at once; else it waits, or is over. */
int answer_offered(struct psb_relay *relay, struct dialled **place);
/* What its client has said was judged: 0, or -EPROTO. `place` may be NULL: it is over. */
int go_offered(struct psb_relay *relay, struct dialled **place, const struct record_field *said);
/* The reader has it from now on, as one that it has dialled. */
void fetch_offered(struct psb_relay *relay, struct dialled **place);

#endif
