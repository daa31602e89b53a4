/* What the dialler is made of. All of it is under its lock, which is taken before that of the relay. */
#ifndef PSB_RELAY_DIALLER_H
#define PSB_RELAY_DIALLER_H

#include <pthread.h>

#include "dial.h"
#include "dial_records.h"
#include "known.h"
#include "relay_state.h"

#define DIAL_BUCKETS 256
#define MOST_MISSED 1024        /* answers that the reader has not taken; more of them are not an honest one's */
#define OF_DIALLER (1ULL << 63) /* in the numbers of its connections, which the host's have not */

enum dialled_state {
    DIALLED_CONNECTING,
    DIALLED_OFFERED, /* its client was answered, and has to speak (offered.c) */
    DIALLED_HELD,    /* the reader has a duplicate */
    DIALLED_RELAYED,
    DIALLED_OVER
};

enum owed {
    OWED_DIALLED = 1,
    OWED_CUT = 2,
    OWED_OVER = 4,
    OWED_MISSED = 8
};

struct dial_cage {
    struct dial_cage *next;
    uint32_t number, most, used;
    uint64_t allowed;
    struct known known[MOST_KNOWN];
};

struct dialled {
    struct dialled *next; /* in its bucket */
    uint64_t number, call, pair;
    struct dial_cage *cage;
    int fd, is_cut;
    int client;    /* that is relayed as soon as it is connected; -1: the reader gets a duplicate of `fd` */
    int is_passed; /* came with its client: the reader knows it by the call alone */
    char *answer;  /* of one that is offered: what its client is told when it is connected */
    size_t answer_size;
    char *said; /* what was read of the client */
    size_t said_size;
    int is_judged;  /* of one that is offered: `said` is what it has said first */
    int is_fetched; /* the reader is to have it when it is connected */
    enum dialled_state state;
    unsigned owed; /* what the reader is to be told */
    struct known_name name;
    uint8_t address[16];
    uint16_t port;
};

/* Whether its server's socket is in the dialler's epoll set: nobody else has it yet. */
static inline int is_polled(const struct dialled *dialled) {
    return dialled->state == DIALLED_CONNECTING || dialled->state == DIALLED_OFFERED;
}

struct dialler {
    pthread_mutex_t lock;
    int epoll, wake, channel, failed, is_full; /* is_full: the channel takes nothing now */
    struct dial_cage *cages;
    struct dialled *buckets[DIAL_BUCKETS];
    uint64_t last_number, missed[MOST_MISSED];
    size_t n_missed;
    char *record;
};

/* NULL for want of memory or descriptors. */
struct dialler *new_dialler(void);
void free_dialler(struct psb_relay *relay);
/* Its epoll set, in that of the relay. */
int watch_dialler(struct psb_relay *relay);

#endif
