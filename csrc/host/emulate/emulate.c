/* connect, bind and sendto, emulated for the caller; see emulate.h. */
#include "emulate.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/time.h>

#include "direct.h"
#include "door.h"
#include "../notify/eintr_timer.h"
#include "../notify/effective_caps.h"

#define FIRST_FREE_PORT 1024

static int is_connect(const struct emulated_call *req) {
    return req->facts.number == SYS_connect;
}

int is_under_way(const struct emulated_call *req) {
    return req->connecting || req->replacement;
}

/* The supervisor may bind low ports in a network that it owns; the caller may not. */
static int is_low_port(const struct emulated_call *req) {
    uint8_t address[16];
    uint16_t port;
    return !to_in6(&req->facts.address, address, &port) && port && port < FIRST_FREE_PORT;
}

static enum call_outcome done(struct emulated_call *req, int64_t value) {
    req->value = value;
    return CALL_DONE;
}

static int set_blocking(int socket, int flags, int blocking) {
    return fcntl(socket, F_SETFL, blocking ? flags & ~O_NONBLOCK : flags | O_NONBLOCK);
}

/* SO_SNDTIMEO bounds a blocking connect or send. */
static void start_waiting(struct emulated_call *req) {
    struct timeval limit = {0, 0};
    socklen_t size = sizeof limit;
    if (req->give_up_ms) return;
    getsockopt(req->socket, SOL_SOCKET, SO_SNDTIMEO, &limit, &size);
    if (limit.tv_sec || limit.tv_usec)
        req->give_up_ms = now_ms() + (uint64_t)limit.tv_sec * 1000 + (uint64_t)limit.tv_usec / 1000 + 1;
}

static int wait_is_over(const struct emulated_call *req) {
    return req->give_up_ms && now_ms() >= req->give_up_ms;
}

/* A socket that is being connected becomes writable when it is, or when it never will be (connect(2)). */
static enum call_outcome go_on_connecting(struct emulated_call *req) {
    struct pollfd ready = {req->socket, POLLOUT, 0};
    struct sockaddr_storage peer;
    socklen_t size = sizeof peer;
    int number = 0;
    if (!getpeername(req->socket, (struct sockaddr *)&peer, &size)) return done(req, 0);
    size = sizeof number;
    if (poll(&ready, 1, 0) < 1) return wait_is_over(req) ? done(req, -EINPROGRESS) : CALL_WAIT_READY;
    getsockopt(req->socket, SOL_SOCKET, SO_ERROR, &number, &size);
    return done(req, -number);
}

/* Begins a blocking connect without blocking. O_NONBLOCK is set on the caller's socket, too, so it is cleared again at
 * once. Another process that shares the socket can clear it just before we connect, and make us sleep: therefore the
 * timer. A TCP connect that was interrupted goes on by itself (connect(2), EINTR); one to a unix socket has not begun.
 */
static int connect_at_once(struct emulated_call *req, const struct sockaddr_storage *to, uint32_t size) {
    const int flags = fcntl(req->socket, F_GETFL);
    int result;
    req->blocking = flags >= 0 && !(flags & O_NONBLOCK);
    if (req->blocking) set_blocking(req->socket, flags, 0);
    arm_eintr_timer();
    result = connect(req->socket, (const struct sockaddr *)to, size) < 0 ? -errno : 0;
    end_interrupting();
    if (req->blocking) set_blocking(req->socket, flags, 1);
    if (result == -EINTR) result = is_inet(&req->facts) ? -EINPROGRESS : -EAGAIN;
    return result;
}

/* 1: the call has a socket of the host's network now. One that cannot be replaced stays in the cage's, where every IPv4
 * address is local: a TCP connection arrives at a door, but a datagram only where a socket is bound to its address. */
static int leave_network(struct emulated_call *req, const struct psb_rules *rules, struct borrowed *borrowed) {
    if (req->relayed || req->route.reach != PSB_REACH_GRANT) return 0;
    return req->facts.host_netns || req->replacement || replace_socket(req, rules, borrowed);
}

static int is_not_replaceable(const struct emulated_call *req) {
    uint8_t address[16];
    uint16_t port;
    if (req->facts.protocol != IPPROTO_UDP || req->facts.host_netns || req->replacement || req->relayed) return 0;
    return !to_in6(&req->facts.address, address, &port) && port && is_four(address) &&
           req->route.reach == PSB_REACH_GRANT;
}

static int connect_outside(struct emulated_call *req, const struct sockaddr_storage *to, uint32_t size) {
    return connect(req->socket, (const struct sockaddr *)to, size) < 0 ? -errno : 0;
}

/* A caller can keep its end from being connected (SO_ATTACH_FILTER): it waits for that as other calls do, and keeps the
 * mutex from nobody. */
static enum call_outcome hand_over(struct emulated_call *req, int moment) {
    const int64_t connected = req->value;
    const int handed = hand_over_caller(req, moment);
    if (handed == -EAGAIN) return CALL_WAIT_A_WHILE;
    return done(req, handed || req->blocking ? handed : connected);
}

static enum call_outcome connect_to_door(struct emulated_call *req) {
    struct sockaddr_storage to;
    uint32_t size;
    int listener;
    if (req->listens) return hand_over(req, 0);
    listener = listen_for_caller(req, &to, &size);
    if (listener == -EAGAIN) return CALL_WAIT_A_WHILE;
    if (listener < 0) return done(req, listener);
    req->value = connect_at_once(req, &to, size);
    if (!req->value || req->value == -EINPROGRESS) {
        listen_at_door(req, listener);
        return hand_over(req, 1);
    }
    close_own(listener);
    return CALL_DONE;
}

static enum call_outcome do_connect(struct emulated_call *req, const struct psb_rules *rules,
                                    struct borrowed *borrowed) {
    struct sockaddr_storage to = {0};
    uint32_t size = req->facts.address.size;
    int held = -1, result = 0;
    if (req->connecting) return go_on_connecting(req);
    if (is_to_door(&req->facts, rules)) return connect_to_door(req);
    memcpy(&to, req->facts.address.bytes, sizeof req->facts.address.bytes);
    if (req->facts.domain == AF_UNIX) result = reach_unix(req, rules, &to, &size, &held);
    if (!result && is_inet(&req->facts) && leave_network(req, rules, borrowed))
        set_destination(&req->facts, &req->route, &to, &size);
    if (req->look == LOOK_WANTED) return CALL_LOOK; /* of an IP socket, so nothing is held */
    if (is_not_replaceable(req)) return CALL_WAIT_LISTENER;
    if (!result) result = req->replacement ? connect_outside(req, &to, size) : connect_at_once(req, &to, size);
    if (held >= 0) close_own(held);
    if (!req->blocking || (result != -EINPROGRESS && result != -EAGAIN)) return done(req, result);
    start_waiting(req);
    if (result == -EAGAIN) return wait_is_over(req) ? done(req, -EAGAIN) : CALL_WAIT_A_WHILE;
    req->connecting = 1;
    return go_on_connecting(req); /* over loopback it is connected by now */
}

/* For another family the credentials that peers see are then the supervisor's (unix(7), SO_PEERCRED). */
static enum call_outcome do_listen(struct emulated_call *req) {
    return done(req, listen(req->socket, (int)req->facts.args[1]) < 0 ? -errno : 0);
}

/* The name of a bound unix socket is kept as it was written, so it cannot be spelled through /proc/self/fd. */
static enum call_outcome do_bind(struct emulated_call *req) {
    if (req->facts.domain == AF_NETLINK) return done(req, bind_netlink(req));
    if (is_low_port(req)) return done(req, -EACCES);
    return done(req, bind(req->socket, (const struct sockaddr *)req->facts.address.bytes, req->facts.address.size) < 0
                         ? -errno
                         : 0);
}

/* What is sent of it at once: a stream takes a part, a datagram is whole or too large. */
static int piece_of(const struct emulated_call *req, size_t *piece) {
    *piece = req->facts.args[2] > LARGEST_DATAGRAM ? LARGEST_DATAGRAM : req->facts.args[2];
    return *piece < req->facts.args[2] && !is_stream(req) ? -EMSGSIZE : 0;
}

static int64_t send_piece(struct emulated_call *req, const struct psb_rules *rules, const void *data, size_t size) {
    struct sockaddr_storage to = {0};
    uint32_t to_size = req->facts.address.size;
    int held = -1, result = 0;
    ssize_t sent;
    memcpy(&to, req->facts.address.bytes, sizeof req->facts.address.bytes);
    if (req->facts.domain == AF_UNIX) result = reach_unix(req, rules, &to, &to_size, &held);
    if (req->facts.domain == AF_NETLINK) result = may_send_netlink(req, data, size);
    if (req->facts.domain == AF_NETLINK) to_size = 0;
    if (result) return result;
    sent = sendto(req->socket, data, size, ((int)req->facts.args[3] & PLAIN_FLAGS) | MSG_DONTWAIT | MSG_NOSIGNAL,
                  to_size ? (const struct sockaddr *)&to : NULL, to_size);
    if (sent < 0) sent = -errno;
    if (held >= 0) close_own(held);
    return sent;
}

static enum call_outcome do_sendto(struct emulated_call *req, const struct psb_rules *rules) {
    size_t size;
    int64_t result = piece_of(req, &size);
    uint8_t *data = result ? NULL : malloc(LARGEST_DATAGRAM);
    if (!data) return done(req, result ? result : -ENOBUFS);
    result = read_exactly(&req->facts.caller, req->facts.args[1], data, size);
    if (!result) result = send_piece(req, rules, data, size);
    free(data);
    return done(req, result);
}

/* The caller would wait: so does its call, but not the supervisor. */
static enum call_outcome wait_if_full(struct emulated_call *req, int flags) {
    const int blocking = req->replacement ? req->blocking : !(fcntl(req->socket, F_GETFL) & O_NONBLOCK);
    if (req->value != -EAGAIN || flags & MSG_DONTWAIT || !blocking) return CALL_DONE;
    start_waiting(req);
    if (wait_is_over(req)) return CALL_DONE;
    return is_inet(&req->facts) ? CALL_WAIT_READY : CALL_WAIT_A_WHILE;
}

static enum call_outcome send_something(struct emulated_call *req, const struct psb_rules *rules,
                                        struct borrowed *borrowed) {
    const int flags = (int)req->facts.args[req->facts.number == SYS_sendmsg ? 2 : 3];
    enum call_outcome outcome;
    if (is_inet(&req->facts) && req->facts.protocol == IPPROTO_UDP && req->facts.address.size && !req->replacement)
        leave_network(req, rules, borrowed);
    if (req->look == LOOK_WANTED) return CALL_LOOK;
    if (req->facts.address.size && is_not_replaceable(req)) return CALL_WAIT_LISTENER;
    outcome = req->facts.number == SYS_sendto ? do_sendto(req, rules) : send_messages(req, rules, borrowed);
    if (outcome == CALL_DONE) outcome = wait_if_full(req, flags);
    req->breaks = outcome == CALL_DONE && req->value == -EPIPE && !(flags & MSG_NOSIGNAL);
    return outcome;
}

static int may_pass(const struct emulated_call *req, const struct psb_rules *rules) {
    const int message = req->facts.number == SYS_sendmsg || req->facts.number == SYS_sendmmsg;
    if (rules->landlock_denies_bind && req->facts.number == SYS_bind) return 1;
    return rules->no_external_reach && !(message && rules->refuse_control);
}

static enum call_outcome emulate_call(struct emulated_call *req, const struct psb_rules *rules,
                                      struct borrowed *borrowed) {
    if (is_connect(req)) return do_connect(req, rules, borrowed);
    if (req->facts.number == SYS_listen) return do_listen(req);
    return req->facts.number == SYS_bind ? do_bind(req) : send_something(req, rules, borrowed);
}

enum call_outcome emulate(struct emulated_call *req, const struct psb_rules *rules, struct borrowed *borrowed) {
    struct powers powers;
    enum call_outcome outcome;
    int number;
    if (is_inet(&req->facts) && !req->route.reach) return refuse(req);
    if (takes_a_name(req, rules, &number)) return done(req, number);
    if (!is_inet(&req->facts) && may_pass(req, rules)) return CALL_CONTINUE;
    if (!is_done_on_behalf(&req->facts)) return refuse(req);
    if (drop_effective_caps(&powers, READS_THE_CALLER, rules->user)) return done(req, -EPERM);
    outcome = emulate_call(req, rules, borrowed);
    (void)restore_powers(&powers); /* it serves cages with fewer from then on: nothing here needs them */
    return outcome;
}

void end_emulated_call(struct emulated_call *req, struct borrowed *borrowed) {
    if (req->socket < 0) return;
    if (req->listens) give_up_door(req);
    give_back(borrowed, req->socket);
    req->socket = -1;
}
