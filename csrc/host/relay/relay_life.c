/* The begin and the end of a relay: its loop, and the dialler in it. */
#include "relay_life.h"

#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "dialler.h"
#include "loop.h"
#include "relay_state.h"
#include "wakeup.h"

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
    relay->dialler = new_dialler();
    if (!relay->chunk || relay->epoll < 0 || relay->wake < 0 || relay->ended < 0 || !relay->dialler ||
        epoll_ctl(relay->epoll, EPOLL_CTL_ADD, relay->wake, &event) < 0 || watch_dialler(relay) < 0) {
        psb_relay_free(relay);
        return NULL;
    }
    return relay;
}

void psb_relay_free(struct psb_relay *relay) {
    struct psb_spliced ended;
    finish_loop(relay);
    free_dialler(relay);
    while (psb_relay_ended(relay, &ended, 1)) continue;
    if (relay->epoll >= 0) close(relay->epoll);
    if (relay->wake >= 0) close(relay->wake);
    if (relay->ended >= 0) close(relay->ended);
    pthread_cond_destroy(&relay->obeyed);
    pthread_mutex_destroy(&relay->lock);
    free(relay->chunk);
    free(relay);
}
