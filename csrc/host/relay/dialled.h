/* The connections of the dialler: all within its lock, but for the last one. */
#ifndef PSB_RELAY_DIALLED_H
#define PSB_RELAY_DIALLED_H

#include "dialler.h"

struct dial_cage *find_dial_cage(struct dialler *dialler, uint32_t number);
void keep_dial_cage(struct dialler *dialler, struct dial_cage *cage);
/* Its place in its bucket, or where it would be. */
struct dialled **find_dialled(struct dialler *dialler, uint64_t number);
/* Closes what it has and gives up its place; the reader is told nothing more of it. */
void drop_dialled(struct psb_relay *relay, struct dialled **place);
/* Resets it, whoever has a duplicate; what the reader is to know of that it is told later. */
void cut_dialled(struct psb_relay *relay, struct dialled *dialled);
/* It does not come to be: the host program is to dial. */
void fail_dialled(struct psb_relay *relay, struct dialled **place);
/* The answer to a call that is not decided here. */
void miss_call(struct psb_relay *relay, uint64_t call);
/* Ends the channel and all that came of it; `failed`: because of the reader. */
void end_channel(struct psb_relay *relay, int failed);
/* Tells the reader this of a connection, now or when it takes it; one that is over has gone when it was told. */
void tell_now(struct psb_relay *relay, struct dialled **place, unsigned owed);
/* Tells the reader what it is owed, as far as it takes it. */
void tell_owed(struct psb_relay *relay);

/* The relay's thread: one of its pairs has ended. */
void dialled_pair_ended(struct psb_relay *relay, uint64_t number);

#endif
