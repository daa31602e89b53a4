/* See guests.h. A loop is a thread of C's own, without the interpreter; it is never joined: one that a file system
 * holds up ends later, and frees what is left. */
#include "guests.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <time.h>

#include "bell.h"
#include "direct.h"

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

static void free_guest(struct guest *guest) {
    if (guest->listener >= 0) close_own(guest->listener);
    if (guest->wake >= 0) close_own(guest->wake);
    free_rules(&guest->rules);
    forget_names(&guest->names);
    forget_borrowed(&guest->borrowed);
    drop_tellings(&guest->tellings);
    pthread_mutex_destroy(&guest->lock);
    free(guest);
}

struct guest *new_guest(struct psb_notifier *notifier, int listener, const struct psb_rules *rules, int *result) {
    struct guest *guest = calloc(1, sizeof *guest);
    *result = guest ? copy_rules(&guest->rules, rules) : -ENOMEM;
    if (*result) {
        free(guest);
        close_own(listener);
        return NULL;
    }
    guest->notifier = notifier;
    guest->listener = listener;
    guest->wake = new_bell();
    pthread_mutex_init(&guest->lock, NULL);
    if (guest->wake >= 0) {
        ioctl(listener, SECCOMP_IOCTL_NOTIF_SET_FLAGS, SYNC_WAKE_UP); /* Linux 6.6; without it a wake-up is slower */
        return guest;
    }
    *result = -errno;
    free_guest(guest);
    return NULL;
}

/* With every signal blocked but the one that its timer will let through (interrupt.c). */
static int start_loop(struct guest *guest, void *(*loop)(void *)) {
    pthread_attr_t attributes;
    pthread_t thread;
    sigset_t all, before;
    int result;
    sigfillset(&all);
    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    pthread_attr_setstacksize(&attributes, STACK_SIZE);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    result = -pthread_create(&thread, &attributes, loop, guest);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
    return result;
}

int64_t enter_guest(struct guest *guest, void *(*loop)(void *)) {
    struct psb_notifier *notifier = guest->notifier;
    uint32_t number;
    int result;
    pthread_mutex_lock(&notifier->lock);
    guest->number = number = ++notifier->last_guest;
    guest->users = 2;
    result = start_loop(guest, loop);
    if (!result) {
        guest->next = notifier->guests;
        notifier->guests = guest;
        notifier->n_guests++;
        notifier->users++;
    }
    pthread_mutex_unlock(&notifier->lock);
    if (result) free_guest(guest);
    return result ? result : (int64_t)number;
}

void leave_guest(struct guest *guest, int failure) {
    struct psb_notifier *notifier = guest->notifier;
    pthread_mutex_lock(&notifier->lock);
    guest->ended = 1;
    if (failure) notifier->failure = failure;
    pthread_cond_broadcast(&notifier->change);
    pthread_mutex_unlock(&notifier->lock);
    release_guest(guest);
    release_notifier(notifier);
}

struct guest *take_guest(struct psb_notifier *notifier, uint32_t number) {
    struct guest **place, *guest;
    pthread_mutex_lock(&notifier->lock);
    for (place = &notifier->guests; *place && (*place)->number != number;) place = &(*place)->next;
    guest = *place;
    if (guest) {
        *place = guest->next;
        notifier->n_guests--;
        drop_tellings(&guest->tellings);
    }
    pthread_mutex_unlock(&notifier->lock);
    return guest;
}

void await_end(struct guest *guest) {
    struct psb_notifier *notifier = guest->notifier;
    struct timespec until;
    int result = 0;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += END_PATIENCE;
    pthread_mutex_lock(&notifier->lock);
    while (!guest->ended && !result) result = pthread_cond_timedwait(&notifier->change, &notifier->lock, &until);
    pthread_mutex_unlock(&notifier->lock);
    release_guest(guest);
}

struct guest *find_guest(struct psb_notifier *notifier, uint32_t number) {
    struct guest *guest;
    pthread_mutex_lock(&notifier->lock);
    for (guest = notifier->guests; guest && guest->number != number;) guest = guest->next;
    if (guest) guest->users++;
    pthread_mutex_unlock(&notifier->lock);
    return guest;
}

void release_guest(struct guest *guest) {
    struct psb_notifier *notifier = guest->notifier;
    int users;
    pthread_mutex_lock(&notifier->lock);
    users = --guest->users;
    pthread_mutex_unlock(&notifier->lock);
    if (!users) free_guest(guest);
}

uint32_t share_of(const struct guest *guest) {
    struct psb_notifier *notifier = guest->notifier;
    struct rlimit most = {0, 0};
    uint64_t share;
    uint32_t guests;
    pthread_mutex_lock(&notifier->lock);
    guests = notifier->n_guests ? notifier->n_guests : 1;
    pthread_mutex_unlock(&notifier->lock);
    getrlimit(RLIMIT_NOFILE, &most);
    share = most.rlim_cur / SHARED / guests;
    if (share < LEAST_SHARE) return LEAST_SHARE;
    return share > MOST_SHARE ? MOST_SHARE : (uint32_t)share;
}

/* ---- tellings ---------------------------------------------------------------------------------------------------- */

void tell(struct guest *guest, const struct psb_told *told) {
    struct psb_notifier *notifier = guest->notifier;
    pthread_mutex_lock(&notifier->lock);
    if (!guest->gone && queue_telling(&guest->tellings, told)) pthread_cond_signal(&notifier->something);
    if (guest->tellings.count >= MOST_TELLINGS) __atomic_store_n(&guest->untold, 1, __ATOMIC_SEQ_CST);
    pthread_mutex_unlock(&notifier->lock);
}

/* The next older one than the last with something to tell, or the youngest: each has its turn. */
static struct guest *whose_turn(const struct psb_notifier *notifier) {
    struct guest *guest, *youngest = NULL;
    for (guest = notifier->guests; guest; guest = guest->next) {
        if (!guest->tellings.first) continue;
        if (guest->number < notifier->last_told) return guest;
        if (!youngest) youngest = guest;
    }
    return youngest;
}

int next_telling(struct psb_notifier *notifier, struct psb_told *told) {
    struct telling *telling = NULL;
    struct guest *guest;
    pthread_mutex_lock(&notifier->lock);
    while (!(guest = whose_turn(notifier)) && !notifier->stopping)
        pthread_cond_wait(&notifier->something, &notifier->lock);
    if (guest) {
        notifier->last_told = guest->number;
        telling = take_telling(&guest->tellings);
        if (guest->tellings.count == MOST_TELLINGS / 2 && __atomic_exchange_n(&guest->untold, 0, __ATOMIC_SEQ_CST))
            ring(guest->wake);
    }
    pthread_mutex_unlock(&notifier->lock);
    return telling ? hand_over(telling, told) : 0;
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
    return notifier;
}

void release_notifier(struct psb_notifier *notifier) {
    int users;
    pthread_mutex_lock(&notifier->lock);
    users = --notifier->users;
    pthread_mutex_unlock(&notifier->lock);
    if (users) return;
    pthread_mutex_destroy(&notifier->lock);
    pthread_cond_destroy(&notifier->something);
    pthread_cond_destroy(&notifier->change);
    free(notifier);
}
