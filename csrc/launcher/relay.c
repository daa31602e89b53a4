#include "relay.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <time.h>
#include <unistd.h>

#include "../host/spawn/thread.h"

#define CHUNK 65536
#define PIECE 4096     /* of one write to what may take its time: between two of them it shows that somebody reads */
#define LOOK_NS 500000 /* between two looks */
#define MOST_LEFT (2 << 20) /* bytes that are taken at the end: more than a pipe can hold is being written */

int64_t now_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void pause_shortly(void) {
    const struct timespec moment = {0, LOOK_NS};
    nanosleep(&moment, NULL);
}

/* The host is short of something for a moment; then a moment has passed. */
static int is_short(int number) {
    if (number == EINTR) return 1;
    if (number != ENOMEM && number != ENOBUFS && number != EMFILE && number != ENFILE && number != EAGAIN) return 0;
    pause_shortly();
    return 1;
}

static int is_nobody_reading(int number) {
    return number == EPIPE || number == ECONNRESET || number == EIO; /* EIO: a terminal that was hung up */
}

static int is_readable(int fd, int timeout) {
    struct pollfd one = {fd, POLLIN, 0};
    return poll(&one, 1, timeout) > 0 && one.revents & POLLIN;
}

static void await_room(int fd) {
    struct pollfd one = {fd, POLLOUT, 0};
    poll(&one, 1, -1);
}

static void lose(struct relay *relay, int number, const char *what) {
    relay->failed = number;
    relay->what = what;
}

/* All of it, or -1 when nobody takes it any more. */
static int write_all(int fd, const char *bytes, size_t size) {
    while (size) {
        const ssize_t some = write(fd, bytes, size);
        if (some >= 0) {
            bytes += some;
            size -= (size_t)some;
        } else if (errno == EAGAIN) {
            await_room(fd); /* the host has set its own descriptor so */
        } else if (!is_short(errno)) {
            return -1;
        }
    }
    return 0;
}

static int pass_pieces(struct relay *relay, const char *bytes, size_t size) {
    while (size) {
        const size_t some = size < relay->piece ? size : relay->piece;
        if (write_all(relay->target, bytes, some)) {
            if (!is_nobody_reading(errno)) lose(relay, errno, "the command's output could not be written");
            return -1;
        }
        relay->passed += some;
        bytes += some;
        size -= some;
    }
    return 0;
}

/* 1 after some bytes, 0 when none are there now, -1 at the end. */
static int pass_copied(struct relay *relay) {
    char bytes[CHUNK];
    const ssize_t got = read(relay->source, bytes, sizeof bytes);
    if (got > 0) return pass_pieces(relay, bytes, (size_t)got) ? -1 : 1;
    if (got == 0) return -1;
    if (errno == EAGAIN || is_short(errno)) return 0;
    if (errno != EIO) lose(relay, errno, "the command's output could not be read"); /* EIO: a terminal was closed */
    return -1;
}

/* From pipe to pipe nothing has to be copied. */
static int pass_spliced(struct relay *relay) {
    for (;;) {
        const ssize_t some = splice(relay->source, NULL, relay->target, NULL, CHUNK, 0);
        if (some > 0) relay->passed += (uint64_t)some;
        if (some >= 0) return some ? 1 : -1;
        if (errno == EAGAIN) {
            if (!is_readable(relay->source, 0)) return 0;
            await_room(relay->target);
        } else if (is_short(errno)) {
            return 0;
        } else {
            if (!is_nobody_reading(errno)) lose(relay, errno, "the command's output could not be passed on");
            return -1;
        }
    }
}

/* Whoever still writes hears of it, and does not wait for ever. */
static void close_relay(struct relay *relay) {
    close(relay->source);
    close(relay->target);
    relay->source = -1;
}

static void *run_relay(void *argument) {
    struct relay *relay = argument;
    int state = 0;
    while (state >= 0) {
        struct pollfd one = {relay->source, POLLIN, 0};
        poll(&one, 1, -1);
        pthread_mutex_lock(&relay->lock);
        state = relay->is_pipe ? pass_spliced(relay) : pass_copied(relay);
        if (state < 0) close_relay(relay);
        pthread_mutex_unlock(&relay->lock);
    }
    return NULL;
}

int open_relay(struct relay *relay, int source, int target, const struct stat *of_target) {
    relay->source = source;
    relay->is_pipe = S_ISFIFO(of_target->st_mode);
    relay->piece = S_ISREG(of_target->st_mode) ? CHUNK : PIECE;
    pthread_mutex_init(&relay->lock, NULL);
    if (fcntl(source, F_SETFL, fcntl(source, F_GETFL) | O_NONBLOCK) < 0) return -errno;
    relay->target = fcntl(target, F_DUPFD_CLOEXEC, 3);
    return relay->target < 0 ? -errno : 0;
}

int unserved_end(const struct relay *relay) {
    return relay->is_served ? -1 : relay->source;
}

/* libc takes the older call only where the answer is ENOSYS (pysandbox/launch/no_thread.py). */
#define NO_CLONE3                                                                                                      \
    "the command's output could not be passed on, since a filter of system calls refuses clone3 (a container of "      \
    "Docker before 20.10.10, or with an old libseccomp): update the engine, or give the container a newer profile"

static void serve_relay(struct relay *relay) {
    const int result = start_detached_thread(run_relay, relay, THREAD_STACK);
    relay->is_served = !result;
    if (!result) return;
    lose(relay, -result, result == -EPERM ? NO_CLONE3 : "the command's output could not be passed on");
    close_relay(relay);
}

void heed_relay(struct relay *relay, short came) {
    if (!came || relay->is_served) return;
    /* What the last writer wrote after the look for bytes, and before that for writers, came as an end alone. Nobody
     * writes any more: the second look is final. */
    if (came & POLLIN || is_readable(relay->source, 0))
        serve_relay(relay);
    else
        close_relay(relay);
}

/* Nothing is there, and the thread has nothing in hand. */
static int is_empty(struct relay *relay) {
    int empty;
    if (pthread_mutex_trylock(&relay->lock)) return 0;
    empty = relay->source < 0 || !is_readable(relay->source, 0);
    pthread_mutex_unlock(&relay->lock);
    return empty;
}

int is_flushed(struct relay *relay, int patience_ms) {
    const uint64_t end = __atomic_load_n(&relay->passed, __ATOMIC_RELAXED) + MOST_LEFT;
    uint64_t passed = 0, seen = UINT64_MAX;
    int64_t since = 0;
    if (unserved_end(relay) >= 0 && is_readable(relay->source, 0)) serve_relay(relay); /* written at its very end */
    while (passed < end && !is_empty(relay)) {
        passed = __atomic_load_n(&relay->passed, __ATOMIC_RELAXED);
        if (passed != seen) {
            seen = passed;
            since = now_ms();
        } else if (now_ms() - since > patience_ms) {
            return 0;
        }
        pause_shortly();
    }
    return 1;
}

/* What a file holds from its place on; the place itself stays where it is. */
static void *run_feed(void *argument) {
    struct feed *feed = argument;
    char bytes[CHUNK];
    off_t at = lseek(feed->source, 0, SEEK_CUR);
    ssize_t got = at < 0 ? -1 : 1;
    while (got > 0) {
        got = pread(feed->source, bytes, sizeof bytes, at);
        if (got < 0 && is_short(errno)) {
            got = 1;
            continue;
        }
        if (got < 0) feed->failed = errno;
        if (got <= 0 || write_all(feed->sink, bytes, (size_t)got)) break;
        at += got;
    }
    close(feed->sink);
    close(feed->source);
    return NULL;
}

int serve_feed(struct feed *feed, int source, int sink) {
    int result;
    feed->sink = sink;
    feed->source = fcntl(source, F_DUPFD_CLOEXEC, 3);
    if (feed->source < 0) return -errno;
    result = start_detached_thread(run_feed, feed, THREAD_STACK);
    if (result) close(feed->source);
    return result;
}
