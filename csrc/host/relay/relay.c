/* START HERE for the bytes of allowed connections: one epoll loop for all pairs of a gatekeeper. This file is what any
 * thread may call; pairs.c has the bytes, orders.c what is asked of the loop, loop.c the loop, relay_turns.c whose turn
 * it is; dial.c, dial_serve.c and dialled.c have new connections that a table decides (known.c). */
#include "relay.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

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

int64_t psb_relay_add_dialled(struct psb_relay *relay, int a, int b, uint32_t flags, const char *prefix, size_t size,
                              uint64_t dialled) {
    struct pair *pair = calloc(1, sizeof *pair);
    struct order *order = pair ? new_order(ORDER_ADD, 0, prefix, size) : NULL;
    uint64_t number;
    if (!order) return give_up(pair, a, b, -ENOMEM);
    prepare(&pair->a, pair, &pair->b, a);
    prepare(&pair->b, pair, &pair->a, b);
    pair->a.held = flags & PSB_RELAY_HOLD;
    pair->of = flags >> PSB_RELAY_CAGE_BITS;
    pair->dialled = dialled;
    order->pair = pair;
    number = enqueue(relay, order);
    return number ? (int64_t)number : give_up(pair, a, b, -ESHUTDOWN);
}

int64_t psb_relay_add(struct psb_relay *relay, int a, int b, uint32_t flags, const char *prefix, size_t size) {
    return psb_relay_add_dialled(relay, a, b, flags, prefix, size, 0);
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
