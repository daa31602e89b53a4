/* From a socket of the cage's network to one of the host's; see direct.h. */
#include "direct.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/syscall.h>

#ifndef SO_NETNS_COOKIE
#define SO_NETNS_COOKIE 71
#endif

uint64_t network_of(int socket) {
    uint64_t cookie = 0;
    socklen_t size = sizeof cookie;
    return getsockopt(socket, SOL_SOCKET, SO_NETNS_COOKIE, &cookie, &size) < 0 ? 0 : cookie;
}

uint64_t own_network(void) {
    const int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    const uint64_t network = fd < 0 ? 0 : network_of(fd);
    if (fd >= 0) close_own(fd);
    return network;
}

int is_of_host(int socket, const struct psb_rules *rules) {
    const uint64_t network = network_of(socket);
    return !network || network == rules->network;
}

static int number(int socket, int level, int name) {
    int value = -1;
    socklen_t size = sizeof value;
    return getsockopt(socket, level, name, &value, &size) < 0 ? -1 : value;
}

int name_of(int socket, union ip_name *name) {
    socklen_t size = sizeof *name;
    memset(name, 0, sizeof *name);
    return getsockname(socket, &name->any, &size) < 0 ? -errno : 0;
}

/* A port that was chosen is one of the cage's network. */
static int is_bound(int socket) {
    union ip_name name;
    if (name_of(socket, &name)) return 1;
    if (name.any.sa_family == AF_INET) return name.four.sin_port || name.four.sin_addr.s_addr;
    return name.six.sin6_port || !IN6_IS_ADDR_UNSPECIFIED(&name.six.sin6_addr);
}

static int is_idle(const struct emulated_call *req) {
    struct tcp_info info = {0};
    socklen_t size = sizeof info.tcpi_state;
    if (is_bound(req->socket)) return 0;
    if (req->facts.protocol != IPPROTO_TCP) return 1;
    return !getsockopt(req->socket, IPPROTO_TCP, TCP_INFO, &info, &size) && info.tcpi_state == TCP_CLOSE;
}

/* The fresh one takes the place of the caller's, and is closed like it: the caller may hold it soon. */
int replace_socket(struct emulated_call *req, const struct psb_rules *rules, struct borrowed *borrowed) {
    const int flags = fcntl(req->socket, F_GETFL), kind = number(req->socket, SOL_SOCKET, SO_TYPE);
    const int sends = req->facts.number != SYS_connect;
    int replacement;
    if (flags < 0 || flags & O_ASYNC || kind != (req->facts.protocol == IPPROTO_TCP ? SOCK_STREAM : SOCK_DGRAM))
        return 0;
    if (!is_idle(req)) return 0;
    if (req->look == NOT_LOOKED) req->look = LOOK_WANTED;
    if (req->look != LOOKED_ALONE) return 0;
    replacement = socket(req->facts.domain, kind | SOCK_CLOEXEC | SOCK_NONBLOCK, req->facts.protocol);
    if (replacement < 0) return 0;
    copy_options(req->socket, replacement, req->facts.domain, req->facts.protocol);
    /* A thread may have gone to another network since; its sockets would not be known for what they are. */
    if (network_of(replacement) != rules->network || (sends && attach_source_filter(replacement, rules)) ||
        exchange_fd(borrowed, req->socket)) {
        close_own(replacement);
        return 0;
    }
    req->socket = replacement;
    req->replacement = 1;
    req->blocking = !(flags & O_NONBLOCK);
    return 1;
}
