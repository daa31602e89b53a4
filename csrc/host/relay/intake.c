/* What a pipe or a stream socket of the host's holds, to a pipe of a cage's; what nobody reads there stays where it is.
 *
 * It is doubled (tee(2)) or looked at (MSG_PEEK), and taken off the host's when the cage's pipe is empty again. That is
 * known without asking where the pipe holds one page: then it can be written. Where much is waiting it holds more, and
 * is asked, often at first and then more seldom. Nothing here waits in a read or a write, and no flag of the host's
 * open file is set. */
#include "intake.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdint.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define LEAST 4096 /* a page */
#define MOST 65536
#define SHORTEST 20000L /* ns */
#define LONGEST 100000000L

struct intake {
    int source, sink, stop, null, is_pipe;
    size_t room;          /* of the cage's pipe */
    uint8_t bytes[LEAST]; /* of a socket */
};

/* 1: the descriptor is ready, or the time is over. 0: the last reader has gone, or `stop` is readable. */
static int await(const struct intake *in, int fd, short events, const struct timespec *patience) {
    struct pollfd all[] = {{fd, events, 0}, {in->sink, 0, 0}, {in->stop, POLLIN, 0}};
    for (;;) {
        const int ready = ppoll(all, 3, patience, NULL);
        if (ready < 0 && errno == EINTR) continue;
        if (ready < 0 || all[2].revents || all[1].revents & POLLERR || all[0].revents & POLLNVAL) return 0;
        if (!ready || all[0].revents) return 1;
    }
}

static size_t holds(int fd) {
    int count = 0;
    return ioctl(fd, FIONREAD, &count) < 0 || count < 0 ? 0 : (size_t)count;
}

static int await_empty(const struct intake *in) {
    struct timespec pause = {0, SHORTEST};
    if (!await(in, in->sink, POLLOUT, NULL)) return 0;
    while (in->room > LEAST && holds(in->sink)) {
        if (!await(in, -1, 0, &pause)) return 0;
        pause.tv_nsec = pause.tv_nsec * 2 > LONGEST ? LONGEST : pause.tv_nsec * 2;
    }
    return 1;
}

/* Resizes the pipe of the cage, which is empty now. */
static void make_room(struct intake *in) {
    const size_t wanted = in->is_pipe && holds(in->source) > MOST / 4 ? MOST : LEAST;
    if (wanted != in->room && fcntl(in->sink, F_SETPIPE_SZ, wanted) >= 0) in->room = wanted;
}

/* The bytes that are in the cage's pipe by now; 0 at the end of the host's, or -errno. */
static ssize_t double_some(struct intake *in) {
    ssize_t count;
    make_room(in);
    if (in->is_pipe) {
        count = tee(in->source, in->sink, in->room, SPLICE_F_NONBLOCK);
    } else {
        count = recv(in->source, in->bytes, sizeof in->bytes, MSG_PEEK | MSG_DONTWAIT);
        if (count > 0) count = write(in->sink, in->bytes, (size_t)count);
    }
    return count < 0 ? -errno : count;
}

/* How many of `count` bytes the command has read. What it has put into its pipe itself counts against it alone. */
static size_t read_by_the_command(const struct intake *in, size_t count) {
    const size_t left = holds(in->sink);
    return left < count ? count - left : 0;
}

static void take_off(struct intake *in, size_t count) {
    while (count) {
        const ssize_t taken = in->is_pipe ? splice(in->source, NULL, in->null, NULL, count, SPLICE_F_NONBLOCK)
                                          : recv(in->source, in->bytes, count, MSG_DONTWAIT);
        if (taken < 0 && errno == EINTR) continue;
        if (taken <= 0) return; /* somebody else has read it */
        count -= (size_t)taken;
    }
}

int psb_take_in(int source, int sink, int stop, int null) {
    struct intake in = {.source = source, .sink = sink, .stop = stop, .null = null};
    struct stat found;
    ssize_t ahead = 0;
    if (fstat(source, &found) < 0 || fcntl(sink, F_SETPIPE_SZ, LEAST) < 0) return -errno;
    in.is_pipe = S_ISFIFO(found.st_mode);
    in.room = LEAST;
    while (await_empty(&in)) {
        take_off(&in, read_by_the_command(&in, (size_t)ahead));
        ahead = 0;
        if (!await(&in, source, POLLIN, NULL)) break;
        ahead = double_some(&in);
        if (ahead == -EAGAIN || ahead == -EINTR)
            ahead = 0;
        else if (ahead <= 0)
            return (int)ahead;
    }
    take_off(&in, read_by_the_command(&in, (size_t)ahead));
    return 0;
}
