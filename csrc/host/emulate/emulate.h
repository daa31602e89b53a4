/* System calls emulated for a caged process: on a copy of its address, through a duplicate of its socket.
 *
 * What is known of a call (call_facts.h) is const; what happens to it is written beside. No call here blocks: what
 * would is WAIT_READY (until the socket is writable) or WAIT_A_WHILE, and is taken up again. */
#ifndef PSB_EMULATE_H
#define PSB_EMULATE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include "../notify/borrowed.h"
#include "../notify/notify.h"
#include "../notify/target.h"
#include "call_facts.h"
#include "clock.h"
#include "reach.h"

#define LARGEST_DATAGRAM 65536
/* What a caller may say of a send; we never wait in one, nor get its signal. */
#define PLAIN_FLAGS (MSG_OOB | MSG_MORE | MSG_EOR | MSG_CONFIRM | MSG_DONTROUTE)

enum call_outcome {
    CALL_DONE, /* call->value is what the call returns, or -errno */
    CALL_WAIT_READY,
    CALL_WAIT_A_WHILE,  /* nothing can be polled for: a unix socket's full queue */
    CALL_LOOK,          /* the caller's descriptors have to be looked through, without the mutex (notify/looks.h) */
    CALL_WAIT_LISTENER, /* nobody listens yet at the address, in the cage's network */
    CALL_CONTINUE       /* the kernel goes on: a family that the rules leave to it */
};

/* Whether the caller's descriptor is all that it has of its socket. */
enum look {
    NOT_LOOKED,
    LOOK_WANTED,
    LOOKED_SHARED,
    LOOKED_ALONE
};

enum refusal {
    NOT_REFUSED,
    REFUSED_CALL,   /* it is not done on behalf */
    REFUSED_CONTROL /* for the ancillary data it carries */
};

struct emulated_call {
    const struct call_facts facts;
    int socket;         /* our duplicate, or the one in its place; -1: none */
    struct route route; /* of an IP call, found anew each time that it is taken up */
    int relayed;        /* in the cage's network somebody listens at the address, and carries it on */

    enum look look;
    int replacement;   /* `socket` is a new one of the host's network, to be put in the place of the caller's */
    int close_on_exec; /* ... which is closed at an exec */
    int blocking;      /* the caller waits for as long as it takes */
    int connecting;    /* a connect is under way */
    int listens;       /* ... to a door, at `listener`, which is the call's */
    int listener;
    uint64_t give_up_ms; /* SO_SNDTIMEO, or the patience at a door, as a CLOCK_MONOTONIC time; 0: never */

    int64_t value;
    int breaks; /* it has met a broken pipe, which is a signal for the caller */
    enum refusal refused;
};

/* Whether it has begun: then nobody finds the socket but who began it, and where it leads was decided. */
int is_under_way(const struct emulated_call *req);

/* Carries out, or goes on with, one call. An IP call without a route is refused. */
enum call_outcome emulate(struct emulated_call *req, const struct psb_rules *rules, struct borrowed *borrowed);
void end_emulated_call(struct emulated_call *req, struct borrowed *borrowed);

/* unix.c: the socket file that a caged process means by a path, where it may be reached. 0, with *to naming it through
 * /proc/self/fd and *held to be closed after use (-1: none); -errno, and then nothing is held. */
int reach_unix(struct emulated_call *req, const struct psb_rules *rules, struct sockaddr_storage *to, uint32_t *size,
               int *held);
/* Without a namespace: whether the socket would get a name or a port of the host's; then *number is what it fails with.
 */
int takes_a_name(struct emulated_call *req, const struct psb_rules *rules, int *number);
/* message.c: sendmsg and sendmmsg */
enum call_outcome send_messages(struct emulated_call *req, const struct psb_rules *rules, struct borrowed *borrowed);
int is_stream(const struct emulated_call *req);

/* table.c: whether there is a row for the socket's family and the call; what has none is never done on behalf. */
int is_done_on_behalf(const struct call_facts *facts);
/* Refuses the call, and has it told: the outcome. */
enum call_outcome refuse(struct emulated_call *req);

/* netlink.c: the supervisor's user owns the cage's network namespace, so what it sends and binds is a query, addressed
 * to the kernel, and nothing else. 0 or -errno. */
int bind_netlink(struct emulated_call *req);
int may_send_netlink(struct emulated_call *req, const void *data, size_t size);

#endif
