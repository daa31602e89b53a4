/* What a notifier holds: its cages, and of their calls those that wait.
 *
 * One mutex guards everything, and notify.c alone takes it: whoever calls the functions on these structs (answers.c,
 * named.c, refusals.c, tellings.c, tickets.c) holds it, and none of them blocks. */
#ifndef PSB_NOTIFIER_H
#define PSB_NOTIFIER_H

#include <pthread.h>
#include <stdint.h>

#include "guest.h"
#include "named.h"
#include "notify.h"
#include "refusals.h"
#include "tellings.h"

/* One cage. */
struct guest {
    uint32_t number;
    int listener;
    struct psb_rules rules;
    struct names names;
    struct refusals refusals;
    struct guest *next;
};

struct psb_notifier {
    pthread_mutex_t lock;
    pthread_cond_t something; /* to tell, or the end */
    int epoll, wake;
    int stopping;
    uint32_t last_guest;
    uint64_t last_ticket;
    struct guest *guests;
    struct ticket *tickets;
    struct tellings tellings;
    uint64_t next_look_ms; /* when the waiting calls are looked after next */
    struct pidfds pidfds;
};

#endif
