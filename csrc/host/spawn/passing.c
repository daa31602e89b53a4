/* Sending a message with descriptors, whatever else this user has on its way through sockets.
 *
 * The kernel counts descriptors in flight by user, a cage's among them, and refuses the next with ETOOMANYREFS to whom
 * there are more than he may have files open. A cage may have more open than its host: it could keep its host from
 * sending any, the order of the next command among them. So who is refused asks for what he may have at most. */
#include <errno.h>
#include <pthread.h>
#include <sys/resource.h>

#include "passing.h"

/* One thread at a time: another would take the raised limit for the process's own, and leave it so. */
static pthread_mutex_t raising = PTHREAD_MUTEX_INITIALIZER;

static ssize_t send_with_most(int to, const struct msghdr *message) {
    struct rlimit own, most;
    ssize_t again;
    int error;
    if (getrlimit(RLIMIT_NOFILE, &own)) return -1;
    most = own;
    most.rlim_cur = own.rlim_max;
    if (setrlimit(RLIMIT_NOFILE, &most)) return -1;
    again = sendmsg(to, message, MSG_NOSIGNAL);
    error = errno;
    (void)setrlimit(RLIMIT_NOFILE, &own);
    errno = error;
    return again;
}

ssize_t send_descriptors(int to, const struct msghdr *message) {
    ssize_t sent = sendmsg(to, message, MSG_NOSIGNAL);
    if (sent >= 0 || errno != ETOOMANYREFS) return sent;
    pthread_mutex_lock(&raising);
    sent = send_with_most(to, message);
    pthread_mutex_unlock(&raising);
    return sent;
}
