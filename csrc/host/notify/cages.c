/* See cages.h. A loop is a thread of C's own, without the interpreter; it is never joined: one that a file system
 * holds up ends later, and frees what is left. */
#include "cages.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <time.h>

#include "../relay/wakeup.h"
#include "../emulate/direct.h"
#include "../spawn/thread.h"

#ifndef SECCOMP_IOCTL_NOTIF_SET_FLAGS
#define SECCOMP_IOCTL_NOTIF_SET_FLAGS _IOW('!', 4, uint64_t)
#endif
#define SYNC_WAKE_UP 1ULL

#define STACK_SIZE (512 * 1024)
#define END_PATIENCE 1 /* seconds */
#define SHARED 4       /* waiting calls may hold this part of the descriptors that the process may have */
#define LEAST_SHARE 4U /* ... of one cage */
#define MOST_SHARE 1024U

_Static_assert(sizeof((struct psb_rules *)0)->action / sizeof(uint32_t) == PSB_CALL_CLASSES,
               "an action for each class");

static void *copy_table(const void *from, size_t count, size_t size) {
    void *copy = calloc(count ? count : 1, size);
    if (copy && count) memcpy(copy, from, count * size);
    return copy;
}

void free_rules(const struct psb_rules *rules) {
    free((void *)(uintptr_t)rules->endpoints);
    free((void *)(uintptr_t)rules->sockets);
    free((void *)(uintptr_t)rules->verdicts);
}

int copy_rules(struct psb_rules *to, const struct psb_rules *from) {
    int result = 0;
    *to = *from;
    to->endpoints = copy_table(from->endpoints, from->n_endpoints, sizeof *from->endpoints);
    to->sockets = copy_table(from->sockets, from->n_sockets, sizeof *from->sockets);
    to->verdicts = copy_table(from->verdicts, from->verdicts_size, 1);
    to->network = from->grants ? own_network() : 0;
    if (!to->endpoints || !to->sockets || !to->verdicts) result = -ENOMEM;
    if (!result && from->grants && !to->network) result = -ENOSYS;
    if (result) free_rules(to);
    return result;
}

static void free_cage(struct notified_cage *cage) {
    if (cage->listener >= 0) close_own(cage->listener);
    if (cage->wake >= 0) close_own(cage->wake);
    free_rules(&cage->rules);
    forget_names(&cage->names);
    close_doors(&cage->doors);
    forget_paths(&cage->paths);
    forget_borrowed(&cage->borrowed);
    drop_events(&cage->events);
    pthread_mutex_destroy(&cage->lock);
    free(cage);
}

struct notified_cage *new_cage(struct psb_notifier *notifier, int listener, const struct psb_rules *rules,
                               int *result) {
    struct notified_cage *cage = calloc(1, sizeof *cage);
    *result = cage ? copy_rules(&cage->rules, rules) : -ENOMEM;
    if (*result) {
        free(cage);
        close_own(listener);
        return NULL;
    }
    cage->notifier = notifier;
    cage->listener = listener;
    cage->wake = new_wakeup();
    pthread_mutex_init(&cage->lock, NULL);
    if (cage->wake >= 0) {
        ioctl(listener, SECCOMP_IOCTL_NOTIF_SET_FLAGS, SYNC_WAKE_UP); /* Linux 6.6; without it a wake-up is slower */
        return cage;
    }
    *result = -errno;
    free_cage(cage);
    return NULL;
}

uint32_t list_cage(struct notified_cage *cage) {
    struct psb_notifier *notifier = cage->notifier;
    cage->number = ++notifier->last_cage;
    cage->users++;
    cage->next = notifier->cages;
    notifier->cages = cage;
    notifier->n_cages++;
    return cage->number;
}

int start_loop(struct notified_cage *cage, void *(*loop)(void *)) {
    int result;
    cage->users++;
    cage->notifier->users++;
    /* It unblocks the one signal of its timer itself (eintr_timer.c). */
    result = start_detached_thread(loop, cage, STACK_SIZE);
    if (!result) return 0;
    cage->users--;
    cage->notifier->users--;
    return result;
}

int64_t enter_cage(struct notified_cage *cage, void *(*loop)(void *)) {
    struct psb_notifier *notifier = cage->notifier;
    uint32_t number;
    int result;
    pthread_mutex_lock(&notifier->lock);
    number = list_cage(cage);
    result = start_loop(cage, loop);
    if (result) {
        notifier->cages = cage->next;
        notifier->n_cages--;
    }
    pthread_mutex_unlock(&notifier->lock);
    if (result) free_cage(cage);
    return result ? result : (int64_t)number;
}

void leave_cage(struct notified_cage *cage, int failure) {
    struct psb_notifier *notifier = cage->notifier;
    pthread_mutex_lock(&notifier->lock);
    cage->ended = 1;
    if (failure) notifier->failure = failure;
    pthread_cond_broadcast(&notifier->change);
    pthread_mutex_unlock(&notifier->lock);
    release_cage(cage);
    release_notifier(notifier);
}

struct notified_cage *take_cage(struct psb_notifier *notifier, uint32_t number) {
    struct notified_cage **place, *cage;
    pthread_mutex_lock(&notifier->lock);
    for (place = &notifier->cages; *place && (*place)->number != number;) place = &(*place)->next;
    cage = *place;
    if (cage) {
        *place = cage->next;
        notifier->n_cages--;
        drop_events(&cage->events);
    }
    pthread_mutex_unlock(&notifier->lock);
    return cage;
}

void await_end(struct notified_cage *cage) {
    struct psb_notifier *notifier = cage->notifier;
    struct timespec until;
    int result = 0;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += END_PATIENCE;
    pthread_mutex_lock(&notifier->lock);
    while (!cage->ended && !result) result = pthread_cond_timedwait(&notifier->change, &notifier->lock, &until);
    pthread_mutex_unlock(&notifier->lock);
    release_cage(cage);
}

struct notified_cage *find_cage(struct psb_notifier *notifier, uint32_t number) {
    struct notified_cage *cage;
    pthread_mutex_lock(&notifier->lock);
    for (cage = notifier->cages; cage && cage->number != number;) cage = cage->next;
    if (cage) cage->users++;
    pthread_mutex_unlock(&notifier->lock);
    return cage;
}

void release_cage(struct notified_cage *cage) {
    struct psb_notifier *notifier = cage->notifier;
    int users;
    pthread_mutex_lock(&notifier->lock);
    users = --cage->users;
    pthread_mutex_unlock(&notifier->lock);
    if (!users) free_cage(cage);
}

uint32_t share_of(const struct notified_cage *cage) {
    struct psb_notifier *notifier = cage->notifier;
    struct rlimit most = {0, 0};
    uint64_t share;
    uint32_t cages;
    pthread_mutex_lock(&notifier->lock);
    cages = notifier->n_cages ? notifier->n_cages : 1;
    pthread_mutex_unlock(&notifier->lock);
    getrlimit(RLIMIT_NOFILE, &most);
    share = most.rlim_cur / SHARED / cages;
    if (share < LEAST_SHARE) return LEAST_SHARE;
    return share > MOST_SHARE ? MOST_SHARE : (uint32_t)share;
}

/* ---- events ---------------------------------------------------------------------------------------------------- */

void post_event(struct notified_cage *cage, const struct psb_event *event) {
    struct psb_notifier *notifier = cage->notifier;
    pthread_mutex_lock(&notifier->lock);
    if (!cage->gone && queue_event(&cage->events, event)) pthread_cond_signal(&notifier->something);
    if (cage->events.count >= MOST_EVENTS) __atomic_store_n(&cage->backlog, 1, __ATOMIC_SEQ_CST);
    pthread_mutex_unlock(&notifier->lock);
}

/* The next older one than the last with something to tell, or the youngest: each has its turn. */
static struct notified_cage *whose_turn(const struct psb_notifier *notifier) {
    struct notified_cage *cage, *youngest = NULL;
    for (cage = notifier->cages; cage; cage = cage->next) {
        if (!cage->events.first) continue;
        if (cage->number < notifier->last_event) return cage;
        if (!youngest) youngest = cage;
    }
    return youngest;
}

int next_event(struct psb_notifier *notifier, struct psb_event *event) {
    struct queued_event *entry = NULL;
    struct notified_cage *cage;
    pthread_mutex_lock(&notifier->lock);
    while (!(cage = whose_turn(notifier)) && !notifier->stopping)
        pthread_cond_wait(&notifier->something, &notifier->lock);
    if (cage) {
        notifier->last_event = cage->number;
        entry = take_event(&cage->events);
        if (cage->events.count == MOST_EVENTS / 2 && __atomic_exchange_n(&cage->backlog, 0, __ATOMIC_SEQ_CST))
            wake_loop(cage->wake);
    }
    pthread_mutex_unlock(&notifier->lock);
    return entry ? pop_event(entry, event) : 0;
}

/* ---- the notifier ------------------------------------------------------------------------------------------------ */

struct psb_notifier *new_notifier(void) {
    struct psb_notifier *notifier = calloc(1, sizeof *notifier);
    pthread_condattr_t clock;
    if (!notifier) return NULL;
    pthread_condattr_init(&clock);
    pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
    pthread_mutex_init(&notifier->lock, NULL);
    pthread_cond_init(&notifier->something, NULL);
    pthread_cond_init(&notifier->change, &clock);
    pthread_condattr_destroy(&clock);
    notifier->users = 1;
    notifier->watch = notifier->rung = -1;
    return notifier;
}

void release_notifier(struct psb_notifier *notifier) {
    int users;
    pthread_mutex_lock(&notifier->lock);
    users = --notifier->users;
    pthread_mutex_unlock(&notifier->lock);
    if (users) return;
    if (notifier->watch >= 0) close_own(notifier->watch);
    if (notifier->rung >= 0) close_own(notifier->rung);
    pthread_mutex_destroy(&notifier->lock);
    pthread_cond_destroy(&notifier->something);
    pthread_cond_destroy(&notifier->change);
    free(notifier);
}
