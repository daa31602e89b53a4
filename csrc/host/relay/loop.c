/* The loop's thread alone touches pairs; every other thread leaves an order and wakes it, and may wait until it is
 * done.
 *
 * epoll is level-triggered and each event moves CHUNK bytes at most, so that pairs take turns, and so do cages
 * (relay_turns.c); where many have something to say, less, so that one pair does not wait for a crowd. */
#include "loop.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>

#include "dial_serve.h"
#include "dialled.h"
#include "orders.h"
#include "pairs.h"
#include "wakeup.h"

#define CROWD 8 /* events in one round, from which on each moves a part of CHUNK */
#define CROWD_CHUNK (32 * 1024)

static void run_order(struct psb_relay *relay, struct order *order) {
    struct pair *pair = order->kind == ORDER_ADD ? order->pair : *find_pair(relay, order->number);
    if (!pair) return;
    switch (order->kind) {
    case ORDER_CUT: end_pair(relay, pair, PSB_SPLICED_CUT); return;
    case ORDER_ADD:
        *find_pair(relay, pair->number) = pair;
        pair->cage = join_turns(&relay->turns, pair->of);
        break;
    case ORDER_SAY:
        if (!pair->a.held) return;
        break;
    case ORDER_RELEASE:
        if (!pair->a.held) return;
        pair->a.held = 0;
        break;
    }
    say_first(pair, order->prefix);
    order->prefix = NULL;
    watch_pair(relay, pair);
}

static int run_orders(struct psb_relay *relay) {
    int stopping;
    uint64_t count = 0;
    struct order *order = take_orders(relay, &stopping), *next;
    for (; order; order = next) {
        next = order->next;
        run_order(relay, order);
        free_order(order);
        count++;
    }
    tell_done(relay, count);
    return stopping;
}

/* Takes those out that came from the dialler, which nobody else knows. */
static void tell_dialler(struct psb_relay *relay) {
    struct pair **place = &relay->dead, *pair;
    while ((pair = *place)) {
        if (!pair->dialled) {
            place = &pair->next;
            continue;
        }
        *place = pair->next;
        leave_turns(&relay->turns, pair->cage);
        dialled_pair_ended(relay, pair->dialled);
        free(pair);
    }
}

static void tell_ended(struct psb_relay *relay) {
    struct pair *pair;
    tell_dialler(relay);
    if (!relay->dead) return;
    pthread_mutex_lock(&relay->lock);
    while ((pair = relay->dead)) {
        relay->dead = pair->next;
        pair->next = NULL;
        leave_turns(&relay->turns, pair->cage);
        if (relay->last_ended)
            relay->last_ended->next = pair;
        else
            relay->first_ended = pair;
        relay->last_ended = pair;
    }
    pthread_mutex_unlock(&relay->lock);
    wake_loop(relay->ended);
}

static void end_all(struct psb_relay *relay) {
    size_t i;
    for (i = 0; i < BUCKETS; i++)
        while (relay->buckets[i]) end_pair(relay, relay->buckets[i], PSB_SPLICED_CUT);
    tell_ended(relay);
}

/* Serves one round of events. Orders come first, so that a cut does not wait for data. Returns whether to stop. */
static int serve_round(struct psb_relay *relay, const struct epoll_event *events, size_t n) {
    const struct epoll_event *pending[MOST_EVENTS];
    struct relay_cage *of[MOST_EVENTS];
    uint8_t order[MOST_EVENTS];
    size_t i, count = 0;
    int stopping = 0;
    for (i = 0; i < n; i++) {
        const struct side *side = events[i].data.ptr;
        if (!side) {
            stopping = run_orders(relay);
            continue;
        }
        if (events[i].data.ptr == relay->dialler) {
            serve_dialler(relay);
            continue;
        }
        pending[count] = &events[i];
        of[count++] = side->pair->cage;
    }
    count = take_turns(&relay->turns, of, count, order);
    for (i = 0; i < count; i++) serve_side(relay, pending[order[i]]->data.ptr, pending[order[i]]->events);
    return stopping;
}

int run_loop(struct psb_relay *relay) {
    struct epoll_event events[MOST_EVENTS];
    int n, stopping = 0;
    while (!stopping) {
        n = epoll_wait(relay->epoll, events, MOST_EVENTS, -1);
        if (n < 0 && errno != EINTR) return -errno;
        relay->share = n < CROWD ? CHUNK : CROWD_CHUNK;
        stopping = serve_round(relay, events, n > 0 ? (size_t)n : 0);
        tell_ended(relay);
    }
    return 0;
}

void finish_loop(struct psb_relay *relay) {
    run_orders(relay);
    end_all(relay);
}
