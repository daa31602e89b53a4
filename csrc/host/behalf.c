/* connect, bind and sendto on behalf of the caller; see behalf.h. */
#include "behalf.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>

#include "direct.h"
#include "interrupt.h"
#include "powers.h"

#define FIRST_FREE_PORT 1024
#define LARGEST_DATAGRAM 65536
#define PLAIN_FLAGS (MSG_DONTWAIT | MSG_NOSIGNAL | MSG_OOB | MSG_MORE | MSG_EOR | MSG_CONFIRM | MSG_DONTROUTE)

uint64_t now_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

static int is_connect(const struct deed *deed) {
    return deed->number == SYS_connect;
}

static int read_plain_address(struct deed *deed, uint64_t at, int64_t size) {
    int result;
    memset(deed->address, 0, sizeof deed->address);
    if ((int32_t)size < 0 || (int32_t)size > ADDRESS_ROOM) return -EINVAL;
    deed->address_size = (uint32_t)(int32_t)size;
    result = deed->address_size ? read_exactly(deed->tid, at, deed->address, deed->address_size) : 0;
    if (result) return result;
    settle(deed);
    return 0;
}

int read_message_address(struct deed *deed, uint64_t header) {
    struct msghdr message;
    int result = read_exactly(deed->tid, header, &message, sizeof message);
    if (result) return result;
    if (!message.msg_name) message.msg_namelen = 0;
    if ((int32_t)message.msg_namelen < 0) return -EINVAL;
    if (message.msg_namelen > ADDRESS_ROOM) message.msg_namelen = ADDRESS_ROOM; /* as the kernel cuts it */
    return read_plain_address(deed, (uint64_t)(uintptr_t)message.msg_name, (int64_t)message.msg_namelen);
}

int read_address(struct deed *deed) {
    switch (deed->number) {
    case SYS_connect:
    case SYS_bind: return read_plain_address(deed, deed->args[1], (int32_t)deed->args[2]);
    case SYS_listen: return 0;
    case SYS_sendto: return read_plain_address(deed, deed->args[4], (int32_t)deed->args[5]);
    default: return read_message_address(deed, deed->args[1]);
    }
}

int take_socket(struct deed *deed, struct borrowed *borrowed) {
    socklen_t size = sizeof deed->domain;
    deed->socket = borrow_fd(borrowed, deed->tid, (int)deed->args[0]);
    if (deed->socket < 0) return deed->socket;
    if (getsockopt(deed->socket, SOL_SOCKET, SO_DOMAIN, &deed->domain, &size) < 0) return -errno;
    if (is_inet(deed) || deed->domain == AF_NETLINK)
        getsockopt(deed->socket, SOL_SOCKET, SO_PROTOCOL, &deed->protocol, &size);
    return 0;
}

int is_inet(const struct deed *deed) {
    return deed->domain == AF_INET || deed->domain == AF_INET6;
}

/* The supervisor may bind low ports in a network that it owns; the caller may not. */
static int is_low_port(const struct deed *deed) {
    uint8_t address[16];
    uint16_t port;
    return !spell(deed, address, &port) && port && port < FIRST_FREE_PORT;
}

static enum deed_outcome done(struct deed *deed, int64_t value) {
    deed->value = value;
    return DEED_DONE;
}

static int set_blocking(int socket, int flags, int blocking) {
    return fcntl(socket, F_SETFL, blocking ? flags & ~O_NONBLOCK : flags | O_NONBLOCK);
}

/* SO_SNDTIMEO bounds a blocking connect or send. */
static void start_waiting(struct deed *deed) {
    struct timeval limit = {0, 0};
    socklen_t size = sizeof limit;
    if (deed->give_up_ms) return;
    getsockopt(deed->socket, SOL_SOCKET, SO_SNDTIMEO, &limit, &size);
    if (limit.tv_sec || limit.tv_usec)
        deed->give_up_ms = now_ms() + (uint64_t)limit.tv_sec * 1000 + (uint64_t)limit.tv_usec / 1000 + 1;
}

static int wait_is_over(const struct deed *deed) {
    return deed->give_up_ms && now_ms() >= deed->give_up_ms;
}

/* A socket that is being connected becomes writable when it is, or when it never will be (connect(2)). */
static enum deed_outcome go_on_connecting(struct deed *deed) {
    struct pollfd ready = {deed->socket, POLLOUT, 0};
    struct sockaddr_storage peer;
    socklen_t size = sizeof peer;
    int number = 0;
    if (!getpeername(deed->socket, (struct sockaddr *)&peer, &size)) return done(deed, 0);
    size = sizeof number;
    if (poll(&ready, 1, 0) < 1) return wait_is_over(deed) ? done(deed, -EINPROGRESS) : DEED_WAIT_READY;
    getsockopt(deed->socket, SOL_SOCKET, SO_ERROR, &number, &size);
    return done(deed, -number);
}

/* A blocking connect is begun without blocking; the flag is the caller's too, so it is put back at once. Whoever shares
 * the socket can clear it just before we connect, and would have us sleep: hence the interruptions. A connect over TCP
 * that was interrupted goes on by itself (connect(2), EINTR); one to a unix socket has not begun. */
static int connect_at_once(struct deed *deed, const struct sockaddr_storage *to, uint32_t size) {
    const int flags = fcntl(deed->socket, F_GETFL);
    int result;
    deed->blocking = flags >= 0 && !(flags & O_NONBLOCK);
    if (deed->blocking) set_blocking(deed->socket, flags, 0);
    begin_interrupting();
    result = connect(deed->socket, (const struct sockaddr *)to, size) < 0 ? -errno : 0;
    end_interrupting();
    if (deed->blocking) set_blocking(deed->socket, flags, 1);
    if (result == -EINTR) result = is_inet(deed) ? -EINPROGRESS : -EAGAIN;
    return result;
}

/* 1: the socket is of the host's network by now. One that cannot be stays in the cage's, where every IPv4 address is
 * local: a TCP connection arrives at a door, but a datagram only where somebody listens at its very address. */
static int leaves(struct deed *deed, const struct psb_rules *rules, struct borrowed *borrowed) {
    if (deed->carried || way_of(deed, rules) != PSB_WAY_GRANT) return 0;
    return deed->foreign || step_outside(deed, rules, borrowed);
}

static int is_stranded(const struct deed *deed, const struct psb_rules *rules) {
    uint8_t address[16];
    uint16_t port;
    if (deed->protocol != IPPROTO_UDP || deed->foreign || deed->fresh || deed->carried) return 0;
    return !spell(deed, address, &port) && port && is_four(address) && way_of(deed, rules) == PSB_WAY_GRANT;
}

static int connect_outside(struct deed *deed, const struct sockaddr_storage *to, uint32_t size) {
    return connect(deed->socket, (const struct sockaddr *)to, size) < 0 ? -errno : 0;
}

static enum deed_outcome do_connect(struct deed *deed, const struct psb_rules *rules, struct borrowed *borrowed) {
    struct sockaddr_storage to = {0};
    uint32_t size = deed->address_size;
    int held = -1, result = 0;
    if (deed->connecting) return go_on_connecting(deed);
    memcpy(&to, deed->address, sizeof deed->address);
    if (deed->domain == AF_UNIX) result = reach_unix(deed, rules, &to, &size, &held);
    if (!result && is_inet(deed) && leaves(deed, rules, borrowed)) aim(deed, &to, &size);
    if (is_stranded(deed, rules)) return DEED_WAIT_CARRIER;
    if (!result) result = deed->fresh ? connect_outside(deed, &to, size) : connect_at_once(deed, &to, size);
    if (held >= 0) close_own(held);
    if (!deed->blocking || (result != -EINPROGRESS && result != -EAGAIN)) return done(deed, result);
    start_waiting(deed);
    if (result == -EAGAIN) return wait_is_over(deed) ? done(deed, -EAGAIN) : DEED_WAIT_A_WHILE;
    deed->connecting = 1;
    return go_on_connecting(deed); /* over loopback it is connected by now */
}

/* For another family the credentials that peers see are then the supervisor's (unix(7), SO_PEERCRED). */
static enum deed_outcome do_listen(struct deed *deed) {
    return done(deed, listen(deed->socket, (int)deed->args[1]) < 0 ? -errno : 0);
}

/* The name of a bound unix socket is kept as it was written, so it cannot be spelled through /proc/self/fd. */
static enum deed_outcome do_bind(struct deed *deed) {
    if (deed->domain == AF_NETLINK) return done(deed, bind_netlink(deed));
    if (is_low_port(deed)) return done(deed, -EACCES);
    return done(deed, bind(deed->socket, (const struct sockaddr *)deed->address, deed->address_size) < 0 ? -errno : 0);
}

/* What is sent of it at once: a stream takes a part, a datagram is whole or too large. */
static int piece_of(const struct deed *deed, size_t *piece) {
    *piece = deed->args[2] > LARGEST_DATAGRAM ? LARGEST_DATAGRAM : deed->args[2];
    return *piece < deed->args[2] && !is_stream(deed) ? -EMSGSIZE : 0;
}

static int64_t send_piece(struct deed *deed, const struct psb_rules *rules, const void *data, size_t size) {
    struct sockaddr_storage to = {0};
    uint32_t to_size = deed->address_size;
    int held = -1, result = 0;
    ssize_t sent;
    memcpy(&to, deed->address, sizeof deed->address);
    if (deed->domain == AF_UNIX) result = reach_unix(deed, rules, &to, &to_size, &held);
    if (deed->domain == AF_NETLINK) result = may_send_netlink(deed, data, size);
    if (deed->domain == AF_NETLINK) to_size = 0;
    if (result) return result;
    sent = sendto(deed->socket, data, size, ((int)deed->args[3] & PLAIN_FLAGS) | MSG_DONTWAIT | MSG_NOSIGNAL,
                  to_size ? (const struct sockaddr *)&to : NULL, to_size);
    if (sent < 0) sent = -errno;
    if (held >= 0) close_own(held);
    return sent;
}

static enum deed_outcome do_sendto(struct deed *deed, const struct psb_rules *rules) {
    size_t size;
    int64_t result = piece_of(deed, &size);
    uint8_t *data = result ? NULL : malloc(LARGEST_DATAGRAM);
    if (!data) return done(deed, result ? result : -ENOBUFS);
    result = read_exactly(deed->tid, deed->args[1], data, size);
    if (!result) result = send_piece(deed, rules, data, size);
    free(data);
    return done(deed, result);
}

/* The caller would wait: so does its call, but not the supervisor. */
static enum deed_outcome wait_if_full(struct deed *deed, int flags) {
    const int blocking = deed->fresh ? deed->blocking : !(fcntl(deed->socket, F_GETFL) & O_NONBLOCK);
    if (deed->value != -EAGAIN || flags & MSG_DONTWAIT || !blocking) return DEED_DONE;
    start_waiting(deed);
    if (wait_is_over(deed)) return DEED_DONE;
    return is_inet(deed) ? DEED_WAIT_READY : DEED_WAIT_A_WHILE;
}

static enum deed_outcome send_something(struct deed *deed, const struct psb_rules *rules, struct borrowed *borrowed) {
    const int flags = (int)deed->args[deed->number == SYS_sendmsg ? 2 : 3];
    enum deed_outcome outcome;
    if (is_inet(deed) && deed->protocol == IPPROTO_UDP && deed->address_size && !deed->fresh)
        leaves(deed, rules, borrowed);
    if (deed->address_size && is_stranded(deed, rules)) return DEED_WAIT_CARRIER;
    outcome = deed->number == SYS_sendto ? do_sendto(deed, rules) : send_messages(deed, rules, borrowed);
    if (outcome == DEED_DONE) outcome = wait_if_full(deed, flags);
    deed->breaks = outcome == DEED_DONE && deed->value == -EPIPE && !(flags & MSG_NOSIGNAL);
    return outcome;
}

static int may_pass(const struct deed *deed, const struct psb_rules *rules) {
    const int message = deed->number == SYS_sendmsg || deed->number == SYS_sendmmsg;
    if (rules->walled && deed->number == SYS_bind) return 1;
    return rules->sealed && !(message && rules->refuse_control);
}

static enum deed_outcome do_it(struct deed *deed, const struct psb_rules *rules, struct borrowed *borrowed) {
    if (is_connect(deed)) return do_connect(deed, rules, borrowed);
    if (deed->number == SYS_listen) return do_listen(deed);
    return deed->number == SYS_bind ? do_bind(deed) : send_something(deed, rules, borrowed);
}

enum deed_outcome carry_out(struct deed *deed, const struct psb_rules *rules, struct borrowed *borrowed) {
    struct powers powers;
    enum deed_outcome outcome;
    int number;
    if (takes_a_name(deed, rules, &number)) return done(deed, number);
    if (!is_inet(deed) && may_pass(deed, rules)) return DEED_PASS;
    if (!is_done_on_behalf(deed)) return refuse(deed);
    if (lower_powers(&powers, READS_THE_CALLER, rules->user)) return done(deed, -EPERM);
    outcome = do_it(deed, rules, borrowed);
    (void)restore_powers(&powers); /* it serves cages with fewer from then on: nothing here needs them */
    return outcome;
}

void end_deed(struct deed *deed, struct borrowed *borrowed) {
    if (deed->socket >= 0) give_back(borrowed, deed->socket);
    deed->socket = -1;
}
