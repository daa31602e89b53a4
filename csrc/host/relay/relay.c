/* START HERE for the bytes of allowed connections: one epoll loop for all pairs of a gatekeeper. This file is what any
 * thread may call; pairs.c has the bytes, orders.c what is asked of the loop, loop.c the loop, relay_turns.c whose turn
 * it is. */
#include "relay.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "loop.h"
#include "orders.h"
#include "relay_state.h"
#include "wakeup.h"

#define KEEP_IDLE_S 60 /* seconds of silence until a peer is asked whether it is there */
#define KEEP_INTERVAL_S 20
#define KEEP_PROBES 6

/* ---- pairs ------------------------------------------------------------------------------------------------------- */

/* Urgent bytes stay in their place in the stream: what is taken is what was seen. */
static void prepare(struct side *side, struct pair *pair, struct side *other, int fd) {
    static const struct {
        int level, name, value;
    } options[] = {
        {SOL_SOCKET, SO_KEEPALIVE, 1},
        {SOL_SOCKET, SO_OOBINLINE, 1},
        {IPPROTO_TCP, TCP_NODELAY, 1},
        {IPPROTO_TCP, TCP_KEEPIDLE, KEEP_IDLE_S},
        {IPPROTO_TCP, TCP_KEEPINTVL, KEEP_INTERVAL_S},
        {IPPROTO_TCP, TCP_KEEPCNT, KEEP_PROBES},
    };
    size_t i;
    for (i = 0; i < sizeof options / sizeof *options; i++)
        setsockopt(fd, options[i].level, options[i].name, &options[i].value, sizeof options[i].value);
    *side = (struct side){.pair = pair, .other = other, .fd = fd};
}

static int64_t give_up(struct pair *pair, int a, int b, int result) {
    free(pair);
    close(a);
    close(b);
    return result;
}

int64_t psb_relay_add(struct psb_relay *relay, int a, int b, uint32_t flags, const char *prefix, size_t size) {
    struct pair *pair = calloc(1, sizeof *pair);
    struct order *order = pair ? new_order(ORDER_ADD, 0, prefix, size) : NULL;
    uint64_t number;
    if (!order) return give_up(pair, a, b, -ENOMEM);
    prepare(&pair->a, pair, &pair->b, a);
    prepare(&pair->b, pair, &pair->a, b);
    pair->a.held = flags & PSB_RELAY_HOLD;
    pair->of = flags >> PSB_RELAY_CAGE_BITS;
    order->pair = pair;
    number = enqueue(relay, order);
    return number ? (int64_t)number : give_up(pair, a, b, -ESHUTDOWN);
}

static int ask_loop(struct psb_relay *relay, struct order *order) {
    if (!order) return -ENOMEM;
    enqueue(relay, order);
    return 0;
}

int psb_relay_release(struct psb_relay *relay, uint64_t number, const char *prefix, size_t size) {
    return ask_loop(relay, new_order(ORDER_RELEASE, number, prefix, size));
}

int psb_relay_say(struct psb_relay *relay, uint64_t number, const char *prefix, size_t size) {
    return ask_loop(relay, new_order(ORDER_SAY, number, prefix, size));
}

int psb_relay_cut(struct psb_relay *relay, uint64_t number) {
    return ask_loop(relay, new_order(ORDER_CUT, number, NULL, 0));
}

int psb_relay_wait_idle(struct psb_relay *relay, int timeout_ms) {
    return await_done(relay, timeout_ms);
}

/* ---- what has ended ---------------------------------------------------------------------------------------------- */

int psb_relay_ended_fd(const struct psb_relay *relay) {
    return relay->ended;
}

int psb_relay_ended(struct psb_relay *relay, struct psb_spliced *ended, size_t room) {
    struct pair *pair;
    size_t n;
    pthread_mutex_lock(&relay->lock);
    for (n = 0; n < room && (pair = relay->first_ended); n++) {
        ended[n] = (struct psb_spliced){
            .number = pair->number, .from_a = pair->a.passed, .from_b = pair->b.passed, .end = pair->end};
        relay->first_ended = pair->next;
        free(pair);
    }
    if (!relay->first_ended) {
        relay->last_ended = NULL;
        clear_wakeup(relay->ended);
    }
    pthread_mutex_unlock(&relay->lock);
    return (int)n;
}

/* ---- the relay --------------------------------------------------------------------------------------------------- */

int psb_relay_run(struct psb_relay *relay) {
    const int result = run_loop(relay);
    pthread_mutex_lock(&relay->lock);
    relay->closed = 1;
    pthread_mutex_unlock(&relay->lock);
    finish_loop(relay);
    return result;
}

void psb_relay_stop(struct psb_relay *relay) {
    pthread_mutex_lock(&relay->lock);
    relay->stopping = 1;
    pthread_mutex_unlock(&relay->lock);
    wake_loop(relay->wake);
}

struct psb_relay *psb_relay_new(void) {
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = NULL};
    struct psb_relay *relay = calloc(1, sizeof *relay);
    pthread_condattr_t monotonic;
    if (!relay) return NULL;
    pthread_mutex_init(&relay->lock, NULL);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&relay->obeyed, &monotonic);
    pthread_condattr_destroy(&monotonic);
    relay->share = CHUNK;
    relay->chunk = malloc(CHUNK);
    relay->epoll = epoll_create1(EPOLL_CLOEXEC);
    relay->wake = new_wakeup();
    relay->ended = new_wakeup();
    if (!relay->chunk || relay->epoll < 0 || relay->wake < 0 || relay->ended < 0 ||
        epoll_ctl(relay->epoll, EPOLL_CTL_ADD, relay->wake, &event) < 0) {
        psb_relay_free(relay);
        return NULL;
    }
    return relay;
}

void psb_relay_free(struct psb_relay *relay) {
    struct psb_spliced ended;
    finish_loop(relay);
    while (psb_relay_ended(relay, &ended, 1)) continue;
    if (relay->epoll >= 0) close(relay->epoll);
    if (relay->wake >= 0) close(relay->wake);
    if (relay->ended >= 0) close(relay->ended);
    pthread_cond_destroy(&relay->obeyed);
    pthread_mutex_destroy(&relay->lock);
    free(relay->chunk);
    free(relay);
}
