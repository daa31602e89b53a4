/* The loop of one cage: it waits for calls and for what its pending calls wait for, and has each served.
 *
 * It holds the cage's mutex but while it waits, and while it closes (borrowed.h). Nothing that is done under the mutex
 * waits for anybody but the cage itself. A call that cannot be answered yet waits for Python (until its deadline), or
 * for a socket (for as long as its caller lives). */
#include "loop.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>

#include "../emulate/emulate.h"
#include "../relay/wakeup.h"
#include "answers.h"
#include "cages.h"
#include "dispatch.h"
#include "looks.h"
#include "pending_calls.h"
#include "receive.h"

#define TICK_MS 50       /* how often the callers of waiting calls are looked after */
#define MOST_YIELDS 1000 /* to a thread that wants the mutex */

/* What it waits for: a wake-up, the listener, and the sockets of its pending calls, which are named by their numbers.
 * psb_answer may close one of those meanwhile: then what is said of its number is of a call that waits no more, and is
 * looked for in vain. */
struct awaited {
    nfds_t count;
    struct pollfd fds[2 + MOST_PENDING];
    uint64_t pending_calls[2 + MOST_PENDING];
};

/* Whether to receive another call. Events that are queued come first: a cage that calls faster than Python reads is
 * delayed itself, and every refusal is counted. */
static int receives(const struct notified_cage *cage) {
    return !cage->deserted && !__atomic_load_n(&cage->backlog, __ATOMIC_SEQ_CST);
}

static void list_awaited(const struct notified_cage *cage, struct awaited *awaited) {
    const struct pending_call *pending;
    awaited->fds[0] = (struct pollfd){cage->wake, POLLIN, 0};
    awaited->fds[1] = (struct pollfd){receives(cage) ? cage->listener : -1, POLLIN, 0};
    awaited->count = 2;
    for (pending = cage->pending_calls; pending; pending = pending->next) {
        if (pending->state != WAIT_SOCKET) continue;
        awaited->fds[awaited->count] = (struct pollfd){pending->req.socket, POLLOUT, 0};
        awaited->pending_calls[awaited->count++] = pending->number;
    }
}

static void refuse_late(struct notified_cage *cage, struct pending_call **place) {
    const struct pending_call *pending = *place;
    struct psb_event event;
    if (is_only_watched(cage, pending->req.facts.call)) {
        respond_continue(cage, pending->id);
        drop_pending(cage, place);
        return;
    }
    if (!respond_value(cage, pending->id, -EPERM)) {
        fill_event(&event, PSB_EVENT_LATE, cage->number, pending->req.facts.call, &pending->req.facts);
        event.pending = pending->number;
        post_event(cage, &event);
    }
    drop_pending(cage, place);
}

/* Deadlines, callers that died, and what has to be tried again: now and then, for each look asks the kernel. */
static void retry_pending(struct notified_cage *cage) {
    struct pending_call **place = &cage->pending_calls;
    const uint64_t now = now_ms();
    if (now < cage->next_look_ms) return;
    cage->next_look_ms = now + TICK_MS;
    while (*place) {
        const struct pending_call *pending = *place;
        const uint64_t number = pending->number; /* it may be freed below */
        if (!still_waits(cage, pending->id))
            drop_pending(cage, place);
        else if (pending->state == WAIT_PYTHON && now >= pending->deadline_ms)
            refuse_late(cage, place);
        else if (pending->state == WAIT_RETRY || (pending->req.give_up_ms && now >= pending->req.give_up_ms))
            resume_call(cage, place);
        if (*place && (*place)->number == number) place = &(*place)->next;
    }
}

static void on_event(struct notified_cage *cage, const struct awaited *awaited) {
    nfds_t i;
    if (awaited->fds[0].revents) clear_wakeup(cage->wake);
    for (i = 2; i < awaited->count; i++) {
        struct pending_call **place = awaited->fds[i].revents ? find_pending(cage, awaited->pending_calls[i]) : NULL;
        if (place && *place && (*place)->state == WAIT_SOCKET) resume_call(cage, place);
    }
    if (awaited->fds[1].revents & POLLIN)
        receive_call(cage);
    else if (awaited->fds[1].revents)
        cage->deserted = 1;
}

/* To other threads that want the mutex (visits.h). */
static void make_way(const struct notified_cage *cage) {
    int i;
    for (i = 0; i < MOST_YIELDS && __atomic_load_n(&cage->visitors, __ATOMIC_SEQ_CST); i++) sched_yield();
}

/* One turn: without the mutex it closes, lets others in and waits; with it, it answers what has come. 0 or -errno. */
static int take_turn(struct notified_cage *cage, struct awaited *awaited) {
    struct place *returned;
    int ready, result;
    list_awaited(cage, awaited);
    ready = cage->pending_calls ? TICK_MS : -1;
    returned = take_returned(&cage->borrowed);
    pthread_mutex_unlock(&cage->lock);
    close_all(returned);
    make_way(cage);
    ready = poll(awaited->fds, awaited->count, ready);
    result = ready < 0 && errno != EINTR ? -errno : 0;
    pthread_mutex_lock(&cage->lock);
    if (cage->gone) return 0;
    if (ready > 0) on_event(cage, awaited);
    if (cage->pending_calls) look_for_all(cage);
    if (cage->pending_calls && !cage->gone) retry_pending(cage);
    return result;
}

void *serve_cage(void *argument) {
    struct notified_cage *cage = argument;
    struct awaited *awaited = malloc(sizeof *awaited);
    struct borrowed left;
    int listener, result = awaited ? 0 : -ENOMEM;
    pthread_mutex_lock(&cage->lock);
    while (!cage->gone && !result) result = take_turn(cage, awaited);
    listener = cage->listener;
    cage->listener = -1;
    cage->gone = 1;
    left = detach_borrowed(&cage->borrowed);
    pthread_mutex_unlock(&cage->lock);
    free(awaited);
    close_own(listener); /* what still waits fails with ENOSYS */
    forget_borrowed(&left);
    leave_cage(cage, result);
    return NULL;
}
