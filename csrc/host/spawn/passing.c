/* Sending a message with descriptors, whatever else this user has on its way through sockets.
 *
 * The kernel counts descriptors in flight by user, a cage's among them, and refuses the next with ETOOMANYREFS to whom
 * there are more than he may have files open. A cage may have more open than its host: it could keep its host from
 * sending any, the order of the next command among them. So who is refused asks for what he may have at most, one
 * thread at a time: a limit that another has raised would be taken for the own one. Nobody waits for room meanwhile,
 * and no copy of the process is forked (one of vfork or clone could begin with what it may have at most). */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sys/resource.h>

#include "passing.h"

static pthread_mutex_t raising = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t prepared = PTHREAD_ONCE_INIT;

static void before_fork(void) {
    pthread_mutex_lock(&raising);
}

static void after_fork(void) {
    pthread_mutex_unlock(&raising);
}

static void prepare(void) {
    pthread_atfork(before_fork, after_fork, after_fork);
}

/* As much as may be had; -1, with errno, where that is no more. */
static int raise_limit(struct rlimit *own) {
    struct rlimit most;
    if (getrlimit(RLIMIT_NOFILE, own) || own->rlim_cur == own->rlim_max) return -1;
    most = *own;
    most.rlim_cur = own->rlim_max;
    return setrlimit(RLIMIT_NOFILE, &most);
}

/* Once, without waiting. With another errno than ETOOMANYREFS there are not too many. */
static ssize_t send_with_more(int to, const struct msghdr *message, int flags) {
    struct rlimit own;
    ssize_t sent = -1;
    int error = ETOOMANYREFS;
    pthread_once(&prepared, prepare);
    pthread_mutex_lock(&raising);
    if (!raise_limit(&own)) {
        sent = sendmsg(to, message, flags | MSG_DONTWAIT);
        error = errno;
        (void)setrlimit(RLIMIT_NOFILE, &own);
    }
    pthread_mutex_unlock(&raising);
    errno = error;
    return sent;
}

static int may_wait(int to, int flags) {
    return !(flags & MSG_DONTWAIT) && !(fcntl(to, F_GETFL) & O_NONBLOCK);
}

/* 0, or -1 with errno. */
static int await_room(int to) {
    struct pollfd room = {to, POLLOUT, 0};
    return poll(&room, 1, -1) < 0 ? -1 : 0;
}

ssize_t send_descriptors(int to, const struct msghdr *message, int flags) {
    for (;;) {
        ssize_t sent = sendmsg(to, message, flags | MSG_NOSIGNAL);
        if (sent >= 0 || errno != ETOOMANYREFS) return sent;
        sent = send_with_more(to, message, flags | MSG_NOSIGNAL);
        if (sent >= 0 || errno != EAGAIN) return sent;
        if (!may_wait(to, flags)) {
            errno = EAGAIN;
            return -1;
        }
        if (await_room(to)) return -1;
    }
}

int is_passing_shortage(int error) {
    return error == ETOOMANYREFS || error == ENOBUFS || error == ENOMEM;
}
