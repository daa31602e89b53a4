/* The options of a socket that was not used yet, on another one. What needs a privilege, chooses a device, a source or
 * a group of receivers, or cannot be read back is left out. */
#include <linux/in6.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <string.h>
#include <sys/socket.h>

#include "direct.h"

#ifndef SO_BUF_LOCK
#define SO_BUF_LOCK 72
#endif
#define LOCKED_SEND 1 /* SOCK_SNDBUF_LOCK, SOCK_RCVBUF_LOCK: somebody has set it */
#define LOCKED_RECEIVE 2
#define LARGEST 32 /* bytes of an option's value */

static const struct {
    int level, name;
} KEPT[] = {
    {SOL_SOCKET, SO_REUSEADDR},
    {SOL_SOCKET, SO_KEEPALIVE},
    {SOL_SOCKET, SO_BROADCAST},
    {SOL_SOCKET, SO_OOBINLINE},
    {SOL_SOCKET, SO_PRIORITY},
    {SOL_SOCKET, SO_LINGER},
    {SOL_SOCKET, SO_RCVLOWAT},
    {SOL_SOCKET, SO_RCVTIMEO},
    {SOL_SOCKET, SO_SNDTIMEO},
    {SOL_SOCKET, SO_TIMESTAMP},
    {SOL_SOCKET, SO_TIMESTAMPNS},
    {SOL_SOCKET, SO_MAX_PACING_RATE},
    {SOL_SOCKET, SO_RXQ_OVFL},
    {SOL_SOCKET, SO_ZEROCOPY},
    {IPPROTO_IP, IP_TOS},
    {IPPROTO_IP, IP_TTL},
    {IPPROTO_IP, IP_MTU_DISCOVER},
    {IPPROTO_IP, IP_RECVERR},
    {IPPROTO_IP, IP_RECVTOS},
    {IPPROTO_IP, IP_RECVTTL},
    {IPPROTO_IP, IP_PKTINFO},
    {IPPROTO_IP, IP_MINTTL},
    {IPPROTO_IPV6, IPV6_V6ONLY},
    {IPPROTO_IPV6, IPV6_TCLASS},
    {IPPROTO_IPV6, IPV6_UNICAST_HOPS},
    {IPPROTO_IPV6, IPV6_MTU_DISCOVER},
    {IPPROTO_IPV6, IPV6_DONTFRAG},
    {IPPROTO_IPV6, IPV6_RECVERR},
    {IPPROTO_IPV6, IPV6_RECVTCLASS},
    {IPPROTO_IPV6, IPV6_RECVHOPLIMIT},
    {IPPROTO_IPV6, IPV6_RECVPKTINFO},
    {IPPROTO_IPV6, IPV6_AUTOFLOWLABEL},
    {IPPROTO_TCP, TCP_NODELAY},
    {IPPROTO_TCP, TCP_MAXSEG},
    {IPPROTO_TCP, TCP_CORK},
    {IPPROTO_TCP, TCP_KEEPIDLE},
    {IPPROTO_TCP, TCP_KEEPINTVL},
    {IPPROTO_TCP, TCP_KEEPCNT},
    {IPPROTO_TCP, TCP_SYNCNT},
    {IPPROTO_TCP, TCP_LINGER2},
    {IPPROTO_TCP, TCP_WINDOW_CLAMP},
    {IPPROTO_TCP, TCP_QUICKACK},
    {IPPROTO_TCP, TCP_CONGESTION},
    {IPPROTO_TCP, TCP_USER_TIMEOUT},
    {IPPROTO_TCP, TCP_THIN_LINEAR_TIMEOUTS},
    {IPPROTO_TCP, TCP_NOTSENT_LOWAT},
    {IPPROTO_TCP, TCP_INQ},
};

#define KINDS 4

struct value {
    socklen_t size; /* 0: there is no such option */
    uint8_t bytes[LARGEST];
};

/* The options of a fresh socket, by kind; read once, so that a connect has only the caller's socket to read. */
static struct value usual[KINDS][sizeof KEPT / sizeof *KEPT];
static pthread_once_t asked = PTHREAD_ONCE_INIT;

/* With SO_REUSEADDR the kernel may choose a UDP port that a program of the host has, whose datagrams would then come to
 * the cage. */
static int applies(size_t option, int domain, int protocol) {
    if (KEPT[option].level == SOL_SOCKET && KEPT[option].name == SO_REUSEADDR && protocol != IPPROTO_TCP) return 0;
    if (KEPT[option].level == IPPROTO_TCP && protocol != IPPROTO_TCP) return 0;
    return KEPT[option].level != IPPROTO_IPV6 || domain == AF_INET6;
}

static int kind_of(int domain, int protocol) {
    return (domain == AF_INET6) * 2 + (protocol == IPPROTO_UDP);
}

static void ask(int socket, size_t option, struct value *value) {
    value->size = sizeof value->bytes;
    memset(value->bytes, 0, sizeof value->bytes);
    if (getsockopt(socket, KEPT[option].level, KEPT[option].name, value->bytes, &value->size) < 0) value->size = 0;
}

static void ask_usual(void) {
    static const int domains[] = {AF_INET, AF_INET6}, protocols[] = {IPPROTO_TCP, IPPROTO_UDP};
    size_t kind, i;
    for (kind = 0; kind < KINDS; kind++) {
        const int domain = domains[kind / 2], protocol = protocols[kind % 2];
        const int plain = socket(domain, (protocol == IPPROTO_TCP ? SOCK_STREAM : SOCK_DGRAM) | SOCK_CLOEXEC, protocol);
        for (i = 0; plain >= 0 && i < sizeof KEPT / sizeof *KEPT; i++)
            if (applies(i, domain, protocol)) ask(plain, i, &usual[kind_of(domain, protocol)][i]);
        if (plain >= 0) close_own(plain);
    }
}

/* Only what differs is set: writing a default again would pin what the kernel tunes by itself. */
static void keep(int from, int to, size_t option, const struct value *plain) {
    struct value wanted;
    ask(from, option, &wanted);
    if (wanted.size && (wanted.size != plain->size || memcmp(wanted.bytes, plain->bytes, wanted.size)))
        setsockopt(to, KEPT[option].level, KEPT[option].name, wanted.bytes, wanted.size);
}

/* The kernel doubles what it is told (socket(7)), and tunes what it was not told. */
static void keep_buffer(int from, int to, int name) {
    int size = 0;
    socklen_t length = sizeof size;
    if (getsockopt(from, SOL_SOCKET, name, &size, &length) < 0) return;
    size /= 2;
    setsockopt(to, SOL_SOCKET, name, &size, sizeof size);
}

void copy_options(int from, int to, int domain, int protocol) {
    int locked = 0;
    socklen_t size = sizeof locked;
    size_t i;
    pthread_once(&asked, ask_usual);
    for (i = 0; i < sizeof KEPT / sizeof *KEPT; i++)
        if (applies(i, domain, protocol)) keep(from, to, i, &usual[kind_of(domain, protocol)][i]);
    if (getsockopt(from, SOL_SOCKET, SO_BUF_LOCK, &locked, &size) < 0) return;
    if (locked & LOCKED_SEND) keep_buffer(from, to, SO_SNDBUF);
    if (locked & LOCKED_RECEIVE) keep_buffer(from, to, SO_RCVBUF);
}
