/* Clients, from when they are accepted until they are Python's, or all is over. */
#ifndef PSB_HOST_REPEAT_CLIENTS_H
#define PSB_HOST_REPEAT_CLIENTS_H

#include "repeat_state.h"

/* Accepts one and serves it: 0 where that is Python's to do. */
int accept_repeat(struct psb_repeats *repeats, struct repeat_door *door);
/* It has said something, or hung up. */
void serve_repeat(struct psb_repeats *repeats, struct repeat_client *client);
/* Those who have not gone on for too long. */
void serve_late(struct psb_repeats *repeats);
/* Python is to go on with it; it may have been told what its words are. */
void hand_back(struct psb_repeats *repeats, struct repeat_client *client);
void end_repeat(struct psb_repeats *repeats, struct repeat_client *client);
/* Whatever it waits in. */
void leave_queue(struct repeat_client *client);
/* One that is Python's, or at its end. */
void free_repeat(struct repeat_client *client);

#endif
