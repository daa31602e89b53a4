/* What a relay is made of: its pairs, and the orders that other threads leave for its loop. Who may touch what: the
 * loop's thread alone touches pairs (pairs.c, loop.c); orders, and pairs that have ended, are under the lock. */
#ifndef PSB_RELAY_STATE_H
#define PSB_RELAY_STATE_H

#include <pthread.h>

#include "relay.h"
#include "relay_turns.h"

#define CHUNK (256 * 1024)
#define BUCKETS 4096

enum flow {
    FLOW_OPEN,
    FLOW_ENDED, /* its source has ended, and its sink was told */
    FLOW_DEAD,  /* its sink takes nothing any more */
    FLOW_BROKEN /* its sink failed: the pair is reset */
};

/* What somebody else has read of a side that is held. */
struct words {
    struct words *next;
    size_t size, sent;
    char bytes[];
};

/* One descriptor, and the bytes that it says to the other. */
struct side {
    struct pair *pair;
    struct side *other;
    int fd;
    enum flow flow;
    uint32_t held;
    uint32_t stalled; /* the other side was full: it is waited for, and this one is not read */
    uint32_t hung_up; /* both its directions are shut: epoll says so whatever is asked for */
    uint32_t watched; /* in the epoll set, with `interest` */
    uint32_t interest;
    uint64_t passed;
    struct words *prefix; /* goes first: psb_relay_say, psb_relay_release */
};

struct pair {
    uint64_t number;
    struct side a, b;
    uint32_t end;     /* 0: alive */
    uint32_t of;      /* the number of its cage */
    uint64_t dialled; /* its number at the dialler, which is told of its end; 0: the host program is */
    struct relay_cage *cage;
    struct pair *next; /* in its bucket; among the dead; among the ended */
};

enum order_kind {
    ORDER_ADD,
    ORDER_SAY,
    ORDER_RELEASE,
    ORDER_CUT
};

struct order {
    enum order_kind kind;
    uint64_t number;
    struct pair *pair;
    struct words *prefix;
    struct order *next;
};

struct dialler;

struct psb_relay {
    pthread_mutex_t lock; /* guards the next nine */
    pthread_cond_t obeyed;
    struct order *first_order, *last_order;
    uint64_t ordered, done; /* how many orders there were, and how many are carried out */
    struct pair *first_ended, *last_ended;
    uint64_t last_number;
    int stopping, closed; /* closed: nobody obeys any more */

    int epoll, wake, ended;
    char *chunk;
    size_t share; /* of it, for each event of this round */
    struct relay_turns turns;
    struct pair *dead; /* ended in this round: an event of them may still be on its way */
    struct pair *buckets[BUCKETS];
    struct dialler *dialler; /* has a lock of its own, which is taken before this one */
};

#endif
