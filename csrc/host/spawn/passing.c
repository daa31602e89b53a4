/* Sending a message with descriptors, whatever else this user has on its way through sockets.
 *
 * The kernel counts descriptors in flight by user, a cage's among them, and refuses the next with ETOOMANYREFS to whom
 * there are more than he may have files open. A cage may have more open than its host: it could keep its host from
 * sending any, the order of the next command among them. So who is refused asks for what he may have at most, one
 * thread at a time: a limit that another has raised would be taken for the own one. */
#include <errno.h>
#include <pthread.h>
#include <sys/resource.h>

#include "passing.h"

static pthread_mutex_t raising = PTHREAD_MUTEX_INITIALIZER;

/* As much as may be had; -1, with errno, where that is no more. */
static int raise_limit(struct rlimit *own) {
    struct rlimit most;
    if (getrlimit(RLIMIT_NOFILE, own) || own->rlim_cur == own->rlim_max) return -1;
    most = *own;
    most.rlim_cur = own->rlim_max;
    return setrlimit(RLIMIT_NOFILE, &most);
}

ssize_t send_descriptors(int to, const struct msghdr *message, int flags) {
    ssize_t sent = sendmsg(to, message, flags | MSG_NOSIGNAL);
    struct rlimit own;
    int error = errno;
    if (sent >= 0 || error != ETOOMANYREFS) return sent;
    pthread_mutex_lock(&raising);
    if (!raise_limit(&own)) {
        sent = sendmsg(to, message, flags | MSG_NOSIGNAL);
        error = errno;
        (void)setrlimit(RLIMIT_NOFILE, &own);
    }
    pthread_mutex_unlock(&raising);
    errno = error;
    return sent;
}

int is_passing_shortage(int error) {
    return error == ETOOMANYREFS || error == ENOBUFS || error == ENOMEM;
}
