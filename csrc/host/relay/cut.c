/* Ending what a socket of a caged process does, through a duplicate of it, so that nothing more comes of it: neither
 * what is to be sent later nor what is in its queue already, for the queue may hold pages of the cage's own, which can
 * still be written to (MSG_ZEROCOPY, sendfile(2), splice(2)), or a datagram that is not whole yet (UDP_CORK). */
#include "cut.h"

#include <errno.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "../emulate/direct.h"
#include "reset.h"

#define LONGEST_DATAGRAM 65535

/* With the headers it is too long, and the kernel drops all of a datagram that something too long is added to. */
static void drop_datagram(int fd) {
    static const char too_long[LONGEST_DATAGRAM];
    (void)!send(fd, too_long, sizeof too_long, MSG_MORE | MSG_DONTWAIT | MSG_NOSIGNAL);
}

/* Connects a UDP socket to itself (udp(7)), so that it receives from no other peer. */
static void aim_at_itself(int fd, int domain) {
    union ip_name name;
    if (name_of(fd, &name)) return;
    if (domain == AF_INET)
        name.four.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    else
        name.six.sin6_addr = in6addr_loopback;
    (void)!connect(fd, &name.any, domain == AF_INET ? sizeof name.four : sizeof name.six);
}

int psb_cut_socket(int fd) {
    int domain = 0, protocol = 0;
    socklen_t size = sizeof domain;
    if (getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &size) < 0) return -errno;
    if (getsockopt(fd, SOL_SOCKET, SO_PROTOCOL, &protocol, &size) < 0) return -errno;
    if (protocol == IPPROTO_TCP) return reset_connection(fd);
    drop_datagram(fd);
    aim_at_itself(fd, domain);
    return 0;
}
