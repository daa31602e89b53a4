/* See asleep.h. A call that comes meanwhile is kept by the kernel: it waits at its listener until the loop is there.
 *
 * The thread waits in epoll(7), where each listener is armed for one report. One that says only that nobody is left
 * under the filter (EPOLLHUP) stays disarmed: nobody will call. It never touches a cage but under the notifier's mutex
 * and by way of the list, so one that was removed meanwhile is none of its any more. */
#include "asleep.h"

#include <errno.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "../relay/wakeup.h"
#include "../spawn/thread.h"
#include "cages.h"

#define STACK_SIZE (128 * 1024)
#define NO_CAGE 0 /* the number of none: somebody has rung */

int calls_rarely(const struct psb_rules *rules) {
    int i;
    if (!rules->moves || rules->watches_paths) return 0;
    for (i = 0; i < PSB_CALL_CLASSES; i++)
        if (i != PSB_CALL_RENAME && rules->action[i] != PSB_ACTION_REFUSE) return 0;
    return 1;
}

/* With the notifier's mutex. */
static void fail_all(struct psb_notifier *notifier, int result) {
    notifier->failure = result;
    pthread_cond_broadcast(&notifier->change);
}

static void wake_cage(struct psb_notifier *notifier, uint32_t number) {
    struct notified_cage *cage;
    int result;
    pthread_mutex_lock(&notifier->lock);
    for (cage = notifier->cages; cage && cage->number != number;) cage = cage->next;
    if (cage && cage->asleep) {
        epoll_ctl(notifier->watch, EPOLL_CTL_DEL, cage->listener, NULL);
        result = start_loop(cage, cage->asleep);
        if (result)
            fail_all(notifier, result);
        else
            cage->asleep = NULL;
    }
    pthread_mutex_unlock(&notifier->lock);
}

/* Whether it is to go on. */
static int watch_once(struct psb_notifier *notifier) {
    struct epoll_event event;
    const int ready = epoll_wait(notifier->watch, &event, 1, -1);
    int ends;
    if (ready > 0 && event.data.u32 != NO_CAGE) {
        if (event.events & EPOLLIN) wake_cage(notifier, event.data.u32);
        return 1;
    }
    pthread_mutex_lock(&notifier->lock);
    if (ready < 0 && errno != EINTR) fail_all(notifier, -errno);
    ends = notifier->stopping || notifier->failure;
    pthread_mutex_unlock(&notifier->lock);
    return !ends;
}

static void *watch_asleep(void *argument) {
    struct psb_notifier *notifier = argument;
    while (watch_once(notifier)) continue;
    release_notifier(notifier);
    return NULL;
}

static int add_watched(int watch, int fd, uint32_t number, uint32_t events) {
    struct epoll_event event = {.events = events, .data = {.u32 = number}};
    return epoll_ctl(watch, EPOLL_CTL_ADD, fd, &event);
}

/* With the notifier's mutex. 0 or -errno. */
static int start_watching(struct psb_notifier *notifier) {
    int result;
    if (notifier->watch >= 0) return 0;
    notifier->watch = epoll_create1(EPOLL_CLOEXEC);
    notifier->rung = new_wakeup();
    result = notifier->watch < 0 || notifier->rung < 0 || add_watched(notifier->watch, notifier->rung, NO_CAGE, EPOLLIN)
                 ? -errno
                 : 0;
    if (!result) {
        notifier->users++;
        result = start_detached_thread(watch_asleep, notifier, STACK_SIZE);
        if (result) notifier->users--;
    }
    if (!result) return 0;
    if (notifier->watch >= 0) close_own(notifier->watch);
    if (notifier->rung >= 0) close_own(notifier->rung);
    notifier->watch = notifier->rung = -1;
    return result;
}

int64_t enter_asleep(struct notified_cage *cage, void *(*loop)(void *)) {
    struct psb_notifier *notifier = cage->notifier;
    int64_t result;
    pthread_mutex_lock(&notifier->lock);
    result = start_watching(notifier);
    if (!result && add_watched(notifier->watch, cage->listener, notifier->last_cage + 1, EPOLLIN | EPOLLONESHOT))
        result = -errno;
    if (!result) {
        cage->asleep = loop;
        result = list_cage(cage);
    }
    pthread_mutex_unlock(&notifier->lock);
    return result;
}

int leave_asleep(struct notified_cage *cage) {
    if (!cage->asleep) return 0;
    epoll_ctl(cage->notifier->watch, EPOLL_CTL_DEL, cage->listener, NULL);
    release_cage(cage);
    return 1;
}

void stop_watching(const struct psb_notifier *notifier) {
    if (notifier->rung >= 0) wake_loop(notifier->rung);
}
