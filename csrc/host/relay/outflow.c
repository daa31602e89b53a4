/* What a command writes to a pipe of its own, to a pipe or a file of the host's that it must not hold.
 *
 * A pipe is spliced to a pipe: at every moment a byte is in the one or in the other, so that an empty source means that
 * all has arrived, whatever is being done. One thread watches all sources for their first byte or their end
 * (outflow_watch.c); a stream that has something is served by a thread of its own, which waits in splice(2) itself, for
 * bytes and for room: a cage can hold the lock of a pipe that it writes to, and holds up nobody but itself. Where the
 * host has made its end non-blocking the wait is poll(2)'s. A stream that flows gets larger pipes; where the other pipe
 * is the host's, that stays as it is. Between two large pipes the thread lets some come together before it moves it on:
 * else it would be woken by every write, and wake the reader for each, on a processor that one of the two could use.
 *
 * To a file the bytes are copied, since splice(2) cannot append, and `in_hand` says that some are on their way. */
#include "outflow.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "outflow_watch.h"

#define LARGE (1 << 20) /* as large as an unprivileged user's pipe can be (pipe(7)) */
#define ORDINARY (64 << 10)
#define FLOWS (1 << 20)  /* bytes after which a stream flows */
#define SHORT 500000L    /* ns that the host is given when it is short of something */
#define CHUNK (64 << 10) /* of one copy */
#define PAGE 4096        /* less at a time does not flow */
#define PART (LARGE / 4) /* as much as is worth a turn of the thread */
#define GATHERS 200000L  /* ns; no two large pipes are filled, or emptied, in so short a time */

struct psb_outflow {
    pthread_mutex_t lock; /* of `source`, which is -1 when it is closed */
    int source, target, copies, widens_target, gathers;
    atomic_uint_fast64_t passed;
    atomic_int error, users, in_hand;
    struct watched watched;
};

static int is_ready(int fd, short events) {
    struct pollfd one = {fd, events, 0};
    return poll(&one, 1, 0) > 0 && one.revents & events;
}

/* The host's end does not wait in splice, and then ours does not either. */
static void await_either(const struct psb_outflow *flow) {
    struct pollfd source = {flow->source, POLLIN, 0}, target = {flow->target, POLLOUT, 0};
    (void)!poll(is_ready(flow->source, POLLIN) ? &target : &source, 1, -1);
}

static void pause_for(long ns) {
    const struct timespec moment = {0, ns};
    nanosleep(&moment, NULL);
}

/* Whether there may be more after a splice that has failed so. */
static int goes_on(struct psb_outflow *flow, int error) {
    if (error == EAGAIN) {
        await_either(flow);
        return 1;
    }
    if (error == EINTR || error == ENOMEM || error == ENOBUFS) {
        pause_for(SHORT);
        return 1;
    }
    if (error != EPIPE && error != ECONNRESET) atomic_store(&flow->error, error); /* else nobody reads any more */
    return 0;
}

static int splice_on(struct psb_outflow *flow) {
    const ssize_t count = splice(flow->source, NULL, flow->target, NULL, LARGE, 0);
    if (count < 0) return goes_on(flow, errno);
    atomic_fetch_add(&flow->passed, (uint_fast64_t)count);
    if (flow->gathers && count >= PAGE && count < PART) pause_for(GATHERS);
    return count > 0;
}

static int write_all(struct psb_outflow *flow, const char *bytes, size_t size) {
    while (size) {
        const ssize_t count = write(flow->target, bytes, size);
        if (count < 0 && !goes_on(flow, errno)) return 0;
        if (count <= 0) continue;
        atomic_fetch_add(&flow->passed, (uint_fast64_t)count);
        bytes += count;
        size -= (size_t)count;
    }
    return 1;
}

static int copy_on(struct psb_outflow *flow) {
    struct pollfd source = {flow->source, POLLIN, 0};
    char bytes[CHUNK];
    ssize_t count;
    int going_on;
    (void)!poll(&source, 1, -1);
    atomic_store(&flow->in_hand, 1); /* before the pipe is empty */
    count = read(flow->source, bytes, sizeof bytes);
    going_on = count < 0 ? goes_on(flow, errno) : count > 0 && write_all(flow, bytes, (size_t)count);
    atomic_store(&flow->in_hand, 0);
    return going_on;
}

static int pass_on(struct psb_outflow *flow) {
    return flow->copies ? copy_on(flow) : splice_on(flow);
}

static void end(void *stream) {
    struct psb_outflow *flow = stream;
    pthread_mutex_lock(&flow->lock);
    close(flow->source);
    close(flow->target);
    flow->source = -1;
    pthread_mutex_unlock(&flow->lock);
    psb_release_outflow(flow);
}

/* As far as the user has pages left: all his pipes have sixteen thousand. Returns the size; 0: as it was. */
static int widen(int pipe) {
    int size;
    for (size = LARGE; size > ORDINARY; size /= 2)
        if (fcntl(pipe, F_SETPIPE_SZ, size) >= 0) return size;
    return 0;
}

/* Where either stays smaller, its two sides need every turn that they can have. */
static void widen_both(struct psb_outflow *flow) {
    const int source = widen(flow->source), target = flow->widens_target ? widen(flow->target) : 0;
    flow->gathers = source == LARGE && target == LARGE;
}

static void serve(void *stream) {
    struct psb_outflow *flow = stream;
    int going_on = 1;
    while (going_on && atomic_load(&flow->passed) < FLOWS) going_on = pass_on(flow);
    if (going_on) widen_both(flow);
    while (going_on) going_on = pass_on(flow);
    end(flow);
}

int psb_start_outflow(int source, int target, int widens_target, struct psb_outflow **made) {
    struct psb_outflow *flow = calloc(1, sizeof *flow);
    struct stat found;
    int result;
    if (!flow) return -ENOMEM;
    pthread_mutex_init(&flow->lock, NULL);
    flow->source = source;
    flow->target = target;
    flow->widens_target = widens_target;
    flow->copies = fstat(target, &found) < 0 || !S_ISFIFO(found.st_mode);
    atomic_store(&flow->users, 2);
    flow->watched = (struct watched){source, flow, serve, end};
    result = watch_source(&flow->watched);
    if (result < 0) {
        pthread_mutex_destroy(&flow->lock);
        free(flow);
        return result;
    }
    *made = flow;
    return 0;
}

int psb_is_flushed(struct psb_outflow *flow) {
    int flushed;
    pthread_mutex_lock(&flow->lock);
    flushed = flow->source < 0 || (!is_ready(flow->source, POLLIN) && !atomic_load(&flow->in_hand)); /* in this order */
    pthread_mutex_unlock(&flow->lock);
    return flushed;
}

uint64_t psb_outflow_passed(struct psb_outflow *flow) {
    return atomic_load(&flow->passed);
}

int psb_outflow_error(struct psb_outflow *flow) {
    return atomic_load(&flow->error);
}

void psb_release_outflow(struct psb_outflow *flow) {
    if (atomic_fetch_sub(&flow->users, 1) != 1) return;
    pthread_mutex_destroy(&flow->lock);
    free(flow);
}
