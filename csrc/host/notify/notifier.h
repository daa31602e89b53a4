/* What a notifier holds: its cages, each with a thread and a mutex of its own, and of their calls those that wait.
 *
 * Cages share nothing that one of them can hold up: each has a thread that receives its calls (one that calls rarely,
 * from its first call on: asleep.h), a mutex for what that thread works on, its pending calls and its queue of events.
 * However long a call of one takes - its memory is being mapped, its file system does not answer, its programs call
 * without end - the others' go on.
 *
 * A cage's mutex is taken in loop.c and visits.c alone (looks.c lets go of it for a while): whoever calls the functions
 * on these structs (answers.c, named.c, refusals.c, pending_calls.c, borrowed.c) holds it, and none of them waits. The
 * notifier's own mutex guards the list of cages, what counts their users, and the events; it is taken last, and for a
 * moment (cages.c). */
#ifndef PSB_NOTIFIER_H
#define PSB_NOTIFIER_H

#include <pthread.h>
#include <stdint.h>

#include "borrowed.h"
#include "doors.h"
#include "named.h"
#include "notify.h"
#include "path_counts.h"
#include "refusals.h"
#include "event_queue.h"

/* One cage. */
struct notified_cage {
    struct psb_notifier *notifier;
    uint32_t number;
    int wake;     /* rung when somebody else has left work for the loop */
    int visitors; /* atomic: other threads that want the mutex */
    int backlog;  /* atomic: so much is to be told that no call is received until it was heard */

    /* Under the cage's mutex. */
    pthread_mutex_t lock;
    int listener;
    int deserted; /* nobody is left under the filter */
    int gone;     /* removed: the loop is to end */
    struct psb_rules rules;
    struct names names;
    struct doors doors;
    struct refusals refusals;
    struct path_counts paths;
    struct pending_call *pending_calls;
    uint32_t n_pending, n_sockets; /* ... and how many of them hold a descriptor */
    uint64_t last_pending;
    uint64_t next_look_ms; /* when the waiting calls are looked after next */
    struct borrowed borrowed;

    /* Under the notifier's. */
    struct event_queue events;
    int users;               /* the list, the loop, and whoever has found it */
    int ended;               /* the loop has */
    void *(*asleep)(void *); /* the loop that starts at its first call, while it has none (asleep.h) */
    struct notified_cage *next;
};

struct psb_notifier {
    pthread_mutex_t lock;
    pthread_cond_t something; /* to tell, or the end */
    pthread_cond_t change;    /* of `stopping`, `failure`, or some cage's `ended` */
    int stopping, failure;
    int users; /* its owner, each loop, and the thread of asleep.h */
    uint32_t last_cage, n_cages;
    uint32_t last_event;         /* the cage whose event was taken last */
    struct notified_cage *cages; /* the youngest first */
    int watch, rung;             /* where the listeners of cages without a loop are waited at; -1 before the first */
};

#endif
