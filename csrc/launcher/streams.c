#include "streams.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <termios.h>
#include <unistd.h>

#include "../host/relay/intake.h"
#include "../host/spawn/thread.h"
#include "host.h"

#define PATIENCE_MS 2000 /* for what takes microseconds */

static void give(struct streams *streams, int fd) {
    streams->given[streams->n_given++] = fd;
}

void close_given(struct streams *streams) {
    while (streams->n_given) close(streams->given[--streams->n_given]);
}

int give_to_user(int fd, int user) {
    struct stat found;
    if (!user || fstat(fd, &found) || found.st_uid) return 0;
    return fchown(fd, (uid_t)user, (gid_t)user);
}

/* One for a single command: what has one open file in common sets flags that the others see. Root's is one whose node
 * nobody can change through it. */
static int open_null(void) {
    char path[40];
    int own_node, fd;
    if (geteuid()) return open("/dev/null", O_RDWR | O_CLOEXEC);
    own_node = psb_open_null();
    if (own_node < 0) return open("/dev/null", O_RDWR | O_CLOEXEC);
    snprintf(path, sizeof path, "/proc/self/fd/%d", own_node);
    fd = open(path, O_RDWR | O_CLOEXEC);
    close(own_node);
    return fd;
}

static int open_pipe(int *ends, int user) {
    if (pipe2(ends, O_CLOEXEC) < 0) return -1;
    return give_to_user(ends[0], user);
}

/* ---- input ------------------------------------------------------------------------------------------------------- */

static int is_stream_socket(mode_t mode) {
    int type = 0;
    socklen_t size = sizeof type;
    return S_ISSOCK(mode) && !getsockopt(0, SOL_SOCKET, SO_TYPE, &type, &size) && type == SOCK_STREAM;
}

static int take_in(struct streams *streams, int sink) {
    struct intake *in = &streams->intake;
    in->source = fcntl(0, F_DUPFD_CLOEXEC, 3);
    in->sink = sink;
    in->stop = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    in->done = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    in->null = open_null();
    streams->takes_in = 1;
    return in->source < 0 || in->stop < 0 || in->done < 0 || in->null < 0 || fcntl(sink, F_SETFL, O_NONBLOCK) < 0 ? -1
                                                                                                                  : 0;
}

static int open_input(struct streams *streams) {
    struct stat found;
    int ends[2];
    if (fstat(0, &found) || S_ISDIR(found.st_mode)) return -1;
    if (isatty(0)) { /* which no cage holds, and which somebody else may read from */
        streams->child[0] = open_null();
        give(streams, streams->child[0]);
        return streams->child[0] < 0 ? -1 : 0;
    }
    if (!S_ISFIFO(found.st_mode) && !S_ISREG(found.st_mode) && !is_stream_socket(found.st_mode)) {
        streams->child[0] = 0;
        return 0;
    }
    if (open_pipe(ends, streams->user)) return -1;
    streams->child[0] = ends[0];
    give(streams, ends[0]);
    if (!S_ISREG(found.st_mode)) return take_in(streams, ends[1]);
    streams->feeds = 1;
    streams->feed.sink = ends[1];
    return 0;
}

/* ---- output ------------------------------------------------------------------------------------------------------ */

/* A pseudo-terminal in place of the host's: its size, and what is written comes out unchanged. */
static int open_screen(int like, int *source, int *inside) {
    struct termios raw;
    struct winsize size;
    char master[] = "/dev/ptmx";
    *source = open(master, O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (*source < 0 || unlockpt(*source)) return -1;
    *inside = ioctl(*source, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (*inside < 0 || tcgetattr(*inside, &raw)) return -1;
    cfmakeraw(&raw);
    if (tcsetattr(*inside, TCSAFLUSH, &raw) || ioctl(like, TIOCGWINSZ, &size)) return -1;
    return ioctl(*inside, TIOCSWINSZ, &size);
}

static int is_one(const struct stat *one, const struct stat *other) {
    const uint64_t first = one->st_rdev ? one->st_rdev : one->st_ino;
    return one->st_dev == other->st_dev && first == (other->st_rdev ? other->st_rdev : other->st_ino);
}

static int open_relayed(struct streams *streams, int fd, const struct stat *found) {
    struct relayed *relayed = &streams->relayed[streams->n_relays];
    int ends[2], result;
    result = S_ISCHR(found->st_mode) ? open_screen(fd, &ends[0], &ends[1]) : open_pipe(ends, streams->user);
    if (result || give_to_user(ends[1], streams->user)) return -1;
    relayed->source = ends[0];
    relayed->target = fd;
    relayed->of_target = *found;
    streams->n_relays++;
    streams->child[fd] = ends[1];
    give(streams, ends[1]);
    return 0;
}

static int open_output(struct streams *streams, int fd) {
    struct stat found;
    int i;
    if (fstat(fd, &found) || S_ISDIR(found.st_mode)) return -1;
    if (!(S_ISCHR(found.st_mode) && isatty(fd)) && !S_ISSOCK(found.st_mode) && !S_ISREG(found.st_mode) &&
        !S_ISFIFO(found.st_mode)) {
        streams->child[fd] = fd;
        return 0;
    }
    for (i = 0; i < streams->n_relays; i++) { /* two streams to one place keep their order */
        if (!is_one(&found, &streams->relayed[i].of_target)) continue;
        streams->child[fd] = streams->child[streams->relayed[i].target];
        return 0;
    }
    return open_relayed(streams, fd, &found);
}

int open_streams(struct streams *streams, int user) {
    streams->user = user;
    streams->terminal = -1;
    return open_input(streams) || open_output(streams, 1) || open_output(streams, 2) ? -1 : 0;
}

/* ---- the command runs -------------------------------------------------------------------------------------------- */

static void *run_intake(void *argument) {
    struct intake *in = argument;
    const uint64_t one = 1;
    psb_take_in(in->source, in->sink, in->stop, in->null);
    close(in->sink);
    close(in->source);
    (void)!write(in->done, &one, sizeof one);
    return NULL;
}

int serve_input(struct streams *streams) {
    if (streams->takes_in) return start_detached_thread(run_intake, &streams->intake, THREAD_STACK);
    return streams->feeds ? serve_feed(&streams->feed, 0, streams->feed.sink) : 0;
}

int serve_output(struct streams *streams) {
    int i, result = 0;
    for (i = 0; i < streams->n_relays && !result; i++) {
        const struct relayed *relayed = &streams->relayed[i];
        result = open_relay(&streams->relays[i], relayed->source, relayed->target, &relayed->of_target);
    }
    return result;
}

void poll_streams(const struct streams *streams, struct pollfd *polled) {
    int i;
    for (i = 0; i < MOST_RELAYS; i++)
        polled[i] = (struct pollfd){i < streams->n_relays ? unserved_end(&streams->relays[i]) : -1, POLLIN, 0};
}

void heed_streams(struct streams *streams, const struct pollfd *polled) {
    int i;
    for (i = 0; i < streams->n_relays; i++) heed_relay(&streams->relays[i], polled[i].revents);
}

void end_input(struct streams *streams) {
    const uint64_t one = 1;
    struct pollfd done = {streams->intake.done, POLLIN, 0};
    const int64_t end = now_ms() + PATIENCE_MS;
    if (!streams->takes_in) return;
    (void)!write(streams->intake.stop, &one, sizeof one);
    while (poll(&done, 1, PATIENCE_MS) < 0 && errno == EINTR && now_ms() < end) {}
}
