/* A list under the relay's lock, and two counts: what was ordered, and what is done. */
#include "orders.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "wakeup.h"

#define MOST_SAID (256 * 1024)

static struct words *copy_of(const char *prefix, size_t size) {
    struct words *words = malloc(sizeof *words + size);
    if (!words) return NULL;
    *words = (struct words){.size = size};
    memcpy(words->bytes, prefix, size);
    return words;
}

struct order *new_order(enum order_kind kind, uint64_t number, const char *prefix, size_t size) {
    struct order *order = size > MOST_SAID ? NULL : calloc(1, sizeof *order);
    if (!order) return NULL;
    order->kind = kind;
    order->number = number;
    if (size && !(order->prefix = copy_of(prefix, size))) {
        free(order);
        return NULL;
    }
    return order;
}

void free_order(struct order *order) {
    free(order->prefix);
    free(order);
}

uint64_t enqueue(struct psb_relay *relay, struct order *order) {
    uint64_t number;
    pthread_mutex_lock(&relay->lock);
    if (relay->closed) {
        pthread_mutex_unlock(&relay->lock);
        free_order(order);
        return 0;
    }
    if (order->pair) order->number = order->pair->number = ++relay->last_number;
    number = order->number;
    if (relay->last_order)
        relay->last_order->next = order;
    else
        relay->first_order = order;
    relay->last_order = order;
    relay->ordered++;
    pthread_mutex_unlock(&relay->lock);
    wake_loop(relay->wake);
    return number;
}

struct order *take_orders(struct psb_relay *relay, int *stopping) {
    struct order *orders;
    clear_wakeup(relay->wake);
    pthread_mutex_lock(&relay->lock);
    orders = relay->first_order;
    relay->first_order = relay->last_order = NULL;
    *stopping = relay->stopping;
    pthread_mutex_unlock(&relay->lock);
    return orders;
}

void tell_done(struct psb_relay *relay, uint64_t count) {
    pthread_mutex_lock(&relay->lock);
    relay->done += count;
    pthread_cond_broadcast(&relay->obeyed);
    pthread_mutex_unlock(&relay->lock);
}

static struct timespec after(int timeout_ms) {
    struct timespec end;
    clock_gettime(CLOCK_MONOTONIC, &end);
    end.tv_sec += timeout_ms / 1000;
    end.tv_nsec += (long)(timeout_ms % 1000) * 1000000;
    if (end.tv_nsec >= 1000000000) {
        end.tv_nsec -= 1000000000;
        end.tv_sec++;
    }
    return end;
}

int await_done(struct psb_relay *relay, int timeout_ms) {
    const struct timespec end = after(timeout_ms);
    uint64_t until;
    int result = 0;
    pthread_mutex_lock(&relay->lock);
    until = relay->ordered;
    while (!result && relay->done < until) result = pthread_cond_timedwait(&relay->obeyed, &relay->lock, &end);
    pthread_mutex_unlock(&relay->lock);
    return -result;
}
