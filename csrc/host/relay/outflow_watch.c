/* One thread of the process waits for the first byte of every stream, and starts a thread for that stream: most of a
 * short command's streams end without one, and cost no thread. It does nothing that could wait for a cage. It ends when
 * there was nothing to watch for a moment, and a forked copy of the process starts with none. */
#include "outflow_watch.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include "../spawn/thread.h"

#define STACK (256 << 10)
#define AT_ONCE 64
#define IDLE 250 /* ms */
#define SHORT 500000L

static struct {
    pthread_mutex_t lock;
    int epoll, watched, runs;
} watch = {PTHREAD_MUTEX_INITIALIZER, -1, 0, 0};
static pthread_once_t prepared = PTHREAD_ONCE_INIT;

static void *serve(void *argument) {
    const struct watched *watched = argument;
    watched->serve(watched->stream);
    return NULL;
}

static int add(struct watched *watched) {
    struct epoll_event event = {.events = EPOLLIN | EPOLLONESHOT, .data.ptr = watched};
    return epoll_ctl(watch.epoll, EPOLL_CTL_ADD, watched->source, &event) < 0 ? -errno : 0;
}

static int is_readable(int source) {
    struct pollfd one = {source, POLLIN, 0};
    return poll(&one, 1, 0) > 0 && one.revents & POLLIN;
}

/* Its first byte, or its end. The kernel looks for bytes first and for writers then: a byte that came in between, with
 * the last writer's end, is found by a second look. */
static void hand_on(struct watched *watched, uint32_t events) {
    const struct timespec moment = {0, SHORT};
    epoll_ctl(watch.epoll, EPOLL_CTL_DEL, watched->source, NULL);
    if (!(events & EPOLLIN) && !is_readable(watched->source)) {
        watched->end(watched->stream);
        return;
    }
    while (start_detached_thread(serve, watched, STACK) < 0)
        nanosleep(&moment, NULL); /* the host is short of something */
}

/* Whether nothing was to be watched for so long, and the thread is to end. */
static int is_idle(void) {
    int idle;
    pthread_mutex_lock(&watch.lock);
    idle = !watch.watched;
    if (idle) {
        close(watch.epoll);
        watch.epoll = -1;
        watch.runs = 0;
    }
    pthread_mutex_unlock(&watch.lock);
    return idle;
}

static void *run(void *unused) {
    struct epoll_event events[AT_ONCE];
    int count, i;
    (void)unused;
    prctl(PR_SET_NAME, "pysandbox-out");
    for (;;) {
        count = epoll_wait(watch.epoll, events, AT_ONCE, IDLE);
        if (!count && is_idle()) return NULL;
        for (i = 0; i < count; i++) hand_on(events[i].data.ptr, events[i].events);
        if (count <= 0) continue;
        pthread_mutex_lock(&watch.lock);
        watch.watched -= count;
        pthread_mutex_unlock(&watch.lock);
    }
}

static void before_fork(void) {
    pthread_mutex_lock(&watch.lock);
}

static void in_parent(void) {
    pthread_mutex_unlock(&watch.lock);
}

/* The streams are the original's, and so is what the epoll instance says. */
static void in_child(void) {
    if (watch.epoll >= 0) close(watch.epoll);
    watch.epoll = -1;
    watch.watched = watch.runs = 0;
    pthread_mutex_unlock(&watch.lock);
}

static void prepare(void) {
    pthread_atfork(before_fork, in_parent, in_child);
}

static int watch_locked(struct watched *watched) {
    int result;
    if (watch.epoll < 0) watch.epoll = epoll_create1(EPOLL_CLOEXEC);
    if (watch.epoll < 0) return -errno;
    if (!watch.runs) {
        result = start_detached_thread(run, NULL, STACK);
        if (result < 0) return result;
        watch.runs = 1;
    }
    result = add(watched);
    if (!result) watch.watched++;
    return result;
}

int watch_source(struct watched *watched) {
    int result;
    pthread_once(&prepared, prepare);
    pthread_mutex_lock(&watch.lock);
    result = watch_locked(watched);
    pthread_mutex_unlock(&watch.lock);
    return result;
}
