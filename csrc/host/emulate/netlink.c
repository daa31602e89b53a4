/* Netlink, emulated: questions to the kernel about the network, as getaddrinfo(3) and ip(8) ask them.
 *
 * The kernel asks who opened a netlink socket, and who sends (__netlink_ns_capable); of a message with a destination it
 * asks the sender alone (NETLINK_SKB_DST). The sender is the supervisor, whose user owns the cage's network namespace.
 * So the destination, which can only be the kernel, is left out; and since the socket may have been opened by a process
 * with more capabilities, a message is sent only when it is a question: those ask for no capability. */
#include <errno.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>

#include "emulate.h"

#define TRIES 4
#define KIND_MASK 3 /* rtnetlink's types are NEW, DEL, GET, SET, one after the other (rtnl_msgtype_kind) */
#define KIND_GET 2

static int is_kernel(const struct sockaddr_nl *address, socklen_t size) {
    return size >= sizeof *address && address->nl_family == AF_NETLINK && !address->nl_pid && !address->nl_groups;
}

static int is_for_the_kernel(const struct emulated_call *req) {
    struct sockaddr_nl peer = {0};
    socklen_t size = sizeof peer;
    if (req->facts.address.size &&
        !is_kernel((const struct sockaddr_nl *)req->facts.address.bytes, req->facts.address.size))
        return 0;
    return !getpeername(req->socket, (struct sockaddr *)&peer, &size) && is_kernel(&peer, size);
}

static int is_question(uint16_t type) {
    return type >= RTM_BASE && ((type - RTM_BASE) & KIND_MASK) == KIND_GET;
}

/* As netlink_rcv_skb goes through it; what it would not understand is not sent. */
static int asks_only(const uint8_t *data, size_t size) {
    while (size >= NLMSG_HDRLEN) {
        struct nlmsghdr header;
        size_t whole;
        memcpy(&header, data, sizeof header);
        if (header.nlmsg_len < NLMSG_HDRLEN || header.nlmsg_len > size || !is_question(header.nlmsg_type)) return 0;
        whole = NLMSG_ALIGN(header.nlmsg_len);
        if (whole > size) whole = size;
        data += whole;
        size -= whole;
    }
    return !size;
}

/* The kernel would name a socket that has no name yet after the process that sends: the supervisor. */
static int name_it(int socket) {
    struct sockaddr_nl name = {0};
    socklen_t size = sizeof name;
    int tries, result = 0;
    if (getsockname(socket, (struct sockaddr *)&name, &size) < 0) return -errno;
    for (tries = 0; tries < TRIES && !name.nl_pid; tries++) {
        struct sockaddr_nl wanted = {.nl_family = AF_NETLINK};
        if (getrandom(&wanted.nl_pid, sizeof wanted.nl_pid, 0) < 0) return -errno;
        wanted.nl_pid |= 1U << 31; /* above all process numbers */
        result = bind(socket, (const struct sockaddr *)&wanted, sizeof wanted) < 0 ? -errno : 0;
        if (result != -EADDRINUSE) break;
    }
    return result == -EINVAL ? 0 : result; /* the caller was quicker */
}

int may_send_netlink(struct emulated_call *req, const void *data, size_t size) {
    if (req->facts.protocol == NETLINK_ROUTE && is_for_the_kernel(req) && asks_only(data, size))
        return name_it(req->socket);
    refuse(req);
    return -EPERM;
}

int bind_netlink(struct emulated_call *req) {
    const int may = req->facts.protocol == NETLINK_ROUTE;
    if (may && is_kernel((const struct sockaddr_nl *)req->facts.address.bytes, req->facts.address.size))
        return name_it(req->socket);
    refuse(req);
    return -EPERM;
}
