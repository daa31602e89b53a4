/* From a caller's socket to whoever serves the door; see door.h. */
#include "door.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string.h>
#include <sys/syscall.h>

#include "../spawn/passing.h"
#include "direct.h"

#ifndef TCP_FASTOPEN_CONNECT
#define TCP_FASTOPEN_CONNECT 30
#endif

#define DOORS_OF_HOST 0x7fc61201U /* 127.198.18.1: loopback like every 127.0.0.0/8, and nobody's habit */
#define BACKLOG 16
#define MOST_STRANGERS 256 /* others who have guessed the port in the moment that it is there */
#define MOMENT_MS 1        /* over loopback a connection is there at once */
#define PATIENCE_MS 100    /* ... or a little later; then it was meant not to be */

int is_to_door(const struct call_facts *facts, const struct psb_rules *rules) {
    static const struct psb_endpoint DOORS = {.address = {[10] = 0xff, [11] = 0xff, [12] = 198, [13] = 18},
                                              .prefix = 111};
    uint8_t address[16];
    uint16_t port;
    if (!rules->doors || !is_inet(facts) || facts->number != SYS_connect) return 0;
    return !to_in6(&facts->address, address, &port) && within(address, &DOORS);
}

static int new_listener(struct sockaddr_in *at) {
    socklen_t size = sizeof *at;
    const int on = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, IPPROTO_TCP);
    if (fd < 0) return -errno;
    *at = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(DOORS_OF_HOST)};
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on); /* what has just closed keeps no port from it */
    if (bind(fd, (struct sockaddr *)at, size) < 0 || listen(fd, BACKLOG) < 0 ||
        getsockname(fd, (struct sockaddr *)at, &size) < 0) {
        close_own(fd);
        return -ECONNREFUSED;
    }
    return fd;
}

static void name_for_caller(const struct emulated_call *req, const struct sockaddr_in *at, struct sockaddr_storage *to,
                            uint32_t *size) {
    struct sockaddr_in6 *six = (struct sockaddr_in6 *)to;
    memset(to, 0, sizeof *to);
    *size = sizeof *at;
    if (req->facts.domain == AF_INET) {
        memcpy(to, at, sizeof *at);
        return;
    }
    *size = sizeof *six;
    six->sin6_family = AF_INET6;
    six->sin6_port = at->sin_port;
    six->sin6_addr.s6_addr[10] = six->sin6_addr.s6_addr[11] = 0xff;
    memcpy(six->sin6_addr.s6_addr + 12, &at->sin_addr, 4);
}

int listen_for_caller(const struct emulated_call *req, struct sockaddr_storage *to, uint32_t *size) {
    struct pollfd door = {req->route.door ? req->route.door->sink : -1, POLLOUT, 0};
    struct sockaddr_in at;
    const int off = 0;
    int listener;
    if (door.fd < 0 || (poll(&door, 1, 0) == 1 && door.revents & (POLLERR | POLLHUP))) return -ECONNREFUSED;
    if (!(door.revents & POLLOUT)) return -EAGAIN;
    listener = new_listener(&at);
    if (listener < 0) return listener;
    /* A socket that was handed in may be of another network, where somebody else may listen at this address. */
    if (!network_of(listener) || network_of(listener) != network_of(req->socket)) {
        close_own(listener);
        return -ECONNREFUSED;
    }
    /* It would connect at the first send, when nobody looks at where that leads any more. */
    setsockopt(req->socket, IPPROTO_TCP, TCP_FASTOPEN_CONNECT, &off, sizeof off);
    name_for_caller(req, &at, to, size);
    return listener;
}

/* The caller's end, by which its connection is told from a stranger's: no two have the same ends. 0 or -errno. */
static int end_of_caller(int socket, struct sockaddr_in *end) {
    union ip_name name;
    const int result = name_of(socket, &name);
    if (result) return result;
    *end = name.four;
    if (name.any.sa_family != AF_INET) memcpy(&end->sin_addr, name.six.sin6_addr.s6_addr + 12, 4);
    return 0; /* the port is at the same place in both */
}

/* -EAGAIN while it is not there. This is under the cage's mutex: it waits for the moment in which it mostly comes. */
static int accept_caller(int listener, const struct sockaddr_in *caller, int moment) {
    struct pollfd ready = {listener, POLLIN, 0};
    int strangers, fd;
    for (strangers = 0; strangers < MOST_STRANGERS; strangers++) {
        struct sockaddr_in peer = {0};
        socklen_t size = sizeof peer;
        if (poll(&ready, 1, moment && !strangers ? MOMENT_MS : 0) < 1) return -EAGAIN;
        fd = accept4(listener, (struct sockaddr *)&peer, &size, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd < 0) continue;
        if (peer.sin_port == caller->sin_port && peer.sin_addr.s_addr == caller->sin_addr.s_addr) return fd;
        close_own(fd);
    }
    return -ECONNREFUSED;
}

static int send_end(int sink, int accepted) {
    char word = 0, room[CMSG_SPACE(sizeof accepted)] = {0};
    struct iovec data = {&word, 1};
    struct msghdr message = {.msg_iov = &data, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof room};
    struct cmsghdr *control = CMSG_FIRSTHDR(&message);
    control->cmsg_level = SOL_SOCKET;
    control->cmsg_type = SCM_RIGHTS;
    control->cmsg_len = CMSG_LEN(sizeof accepted);
    memcpy(CMSG_DATA(control), &accepted, sizeof accepted);
    return send_descriptors(sink, &message, MSG_DONTWAIT) < 0 ? -ECONNREFUSED : 0;
}

/* A connect that is still under way would lead to whoever listens at that port next. */
static void undo_connect(int socket) {
    const struct sockaddr nowhere = {.sa_family = AF_UNSPEC};
    (void)connect(socket, &nowhere, sizeof nowhere);
}

void listen_at_door(struct emulated_call *req, int listener) {
    req->listens = 1;
    req->listener = listener;
    req->give_up_ms = now_ms() + PATIENCE_MS;
}

static void leave_door(struct emulated_call *req) {
    close_own(req->listener);
    req->listens = 0;
}

void give_up_door(struct emulated_call *req) {
    undo_connect(req->socket);
    leave_door(req);
}

int hand_over_caller(struct emulated_call *req, int moment) {
    const struct door *door = req->route.door; /* of now: it may have been closed meanwhile */
    struct sockaddr_in caller;
    int result = door ? end_of_caller(req->socket, &caller) : -ECONNREFUSED;
    const int accepted = result ? result : accept_caller(req->listener, &caller, moment);
    if (accepted == -EAGAIN && now_ms() < req->give_up_ms) return -EAGAIN;
    result = accepted < 0 ? -ECONNREFUSED : send_end(door->sink, accepted);
    if (accepted >= 0) close_own(accepted);
    if (result)
        give_up_door(req);
    else
        leave_door(req);
    return result;
}
