/* Sending a message with descriptors, whatever else this user has on its way through sockets.
 *
 * The kernel counts descriptors in flight by user, a cage's among them, and refuses the next with ETOOMANYREFS to whom
 * there are more than he may have files open. A cage may have more open than its host: it could keep its host from
 * sending any, the order of the next command among them. So who is refused asks for what he may have at most. */
#include <errno.h>
#include <sys/resource.h>

#include "passing.h"

ssize_t send_descriptors(int to, const struct msghdr *message) {
    const ssize_t sent = sendmsg(to, message, MSG_NOSIGNAL);
    struct rlimit own, most;
    ssize_t again;
    int error;
    if (sent >= 0 || errno != ETOOMANYREFS) return sent;
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
