/* A connect to a door, by a cage that has no network namespace for one (isolation = "landlock").
 *
 * Nothing listens for longer than one connect takes: a listener of our own is made for it, the caller's socket is
 * connected to that, and what was accepted is handed to whoever serves the door. Whom the connection is of is known
 * because we have made it: no port, no name and no secret exists that another process of the host could use. */
#ifndef PSB_DOOR_H
#define PSB_DOOR_H

#include <stdint.h>

#include "emulate.h"

/* Whether the call connects to the addresses of doors, which lead nowhere else. */
int is_to_door(const struct call_facts *facts, const struct psb_rules *rules);
/* A listener for this connect and, in *to, its address as the caller's socket takes it: a descriptor; -EAGAIN while
 * whoever serves the door has enough to do; -ECONNREFUSED: nobody does, or no socket of ours could meet the caller's.
 */
int listen_for_caller(const struct emulated_call *req, struct sockaddr_storage *to, uint32_t *size);
/* The caller's socket is being connected to this listener, which is the call's from now on. */
void listen_at_door(struct emulated_call *req, int listener);
/* Hands the other end over: 0; -EAGAIN while it is not there, but for `moment` at once; or -errno, and then the
 * caller's socket is connected to nothing. But for -EAGAIN the listener is closed. */
int hand_over_caller(struct emulated_call *req, int moment);
/* For a call that ends before: its socket is connected to nothing, and the listener is closed. */
void give_up_door(struct emulated_call *req);

#endif
