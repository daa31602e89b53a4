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

void look_home(struct deed *deed, const struct psb_rules *rules) {
    uint8_t address[16];
    uint16_t port;
    deed->own = 0;
    if (!rules->network || way_of(deed, rules) != PSB_WAY_GRANT || spell(deed, address, &port)) return;
    deed->own = 1; /* what is granted even so need not be asked about */
    deed->own = way_of(deed, rules) != PSB_WAY_GRANT && psb_is_own(address);
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

static int is_idle(const struct deed *deed) {
    struct tcp_info info = {0};
    socklen_t size = sizeof info.tcpi_state;
    if (is_bound(deed->socket)) return 0;
    if (deed->protocol != IPPROTO_TCP) return 1;
    return !getsockopt(deed->socket, IPPROTO_TCP, TCP_INFO, &info, &size) && info.tcpi_state == TCP_CLOSE;
}

/* The fresh one takes the place of the caller's, and is closed like it: the caller may hold it soon. */
int step_outside(struct deed *deed, const struct psb_rules *rules, struct borrowed *borrowed) {
    const int flags = fcntl(deed->socket, F_GETFL), kind = number(deed->socket, SOL_SOCKET, SO_TYPE);
    const int sends = deed->number != SYS_connect;
    int fresh;
    if (flags < 0 || flags & O_ASYNC || kind != (deed->protocol == IPPROTO_TCP ? SOCK_STREAM : SOCK_DGRAM)) return 0;
    if (!is_idle(deed) || !stands_alone(deed->tid, (int)deed->args[0], deed->socket, &deed->close_on_exec)) return 0;
    fresh = socket(deed->domain, kind | SOCK_CLOEXEC | SOCK_NONBLOCK, deed->protocol);
    if (fresh < 0) return 0;
    copy_options(deed->socket, fresh, deed->domain, deed->protocol);
    /* A thread may have gone to another network since; its sockets would not be known for what they are. */
    if (network_of(fresh) != rules->network || (sends && hear_listed_only(fresh, rules)) ||
        exchange_fd(borrowed, deed->socket)) {
        close_own(fresh);
        return 0;
    }
    deed->socket = fresh;
    deed->fresh = 1;
    deed->blocking = !(flags & O_NONBLOCK);
    return 1;
}
