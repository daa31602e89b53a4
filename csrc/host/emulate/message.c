/* sendmsg and sendmmsg, emulated: header, vectors, data and ancillary data are each read once and sent from the copy.
 *
 * sendmmsg sends one message after the other and may stop early, as it may by itself (sendmmsg(2)): its turn ends with
 * a message that carries descriptors, so that they are closed before others are taken. */
#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>

#include "emulate.h"
#include "direct.h"

#define DATA_ROOM (256 * 1024) /* of one stream message; the rest is a short count */
#define VECTORS 1024           /* UIO_MAXIOV */
#define CONTROL_ROOM 8192
#define MOST_FDS 253     /* SCM_MAX_FD */
#define TURN_MESSAGES 64 /* of one sendmmsg */
#define TURN_BYTES (512 * 1024)
#ifndef SOL_IPV6
#define SOL_IPV6 41
#endif
#ifndef SOL_UDP
#define SOL_UDP 17
#endif
#define SOL_TLS 282 /* <linux/socket.h>, <linux/tls.h>, <linux/udp.h> */
#define TLS_SET_RECORD_TYPE 1
#define UDP_SEGMENT 103

struct parcel {
    struct msghdr header; /* as the caller wrote it */
    struct iovec vectors[VECTORS];
    uint8_t data[DATA_ROOM];
    union {
        uint8_t control[CONTROL_ROOM];
        struct cmsghdr aligned;
    } ancillary;
    size_t size, control_size;
    int fds[MOST_FDS];
    int n_fds;
};

/* Cuts the vectors where there is no more room: what is left of them is what is read, by one call. */
static void fit(struct parcel *parcel, size_t count, size_t room) {
    size_t i;
    for (i = 0; i < count; i++) {
        if (parcel->vectors[i].iov_len > room - parcel->size) parcel->vectors[i].iov_len = room - parcel->size;
        parcel->size += parcel->vectors[i].iov_len;
    }
}

static int gather(const struct emulated_call *req, struct parcel *parcel, size_t room) {
    const size_t count = parcel->header.msg_iovlen;
    int result;
    if (count > VECTORS) return -EMSGSIZE;
    result = count ? read_exactly(&req->facts.caller, (uint64_t)(uintptr_t)parcel->header.msg_iov, parcel->vectors,
                                  count * sizeof parcel->vectors[0])
                   : 0;
    if (result) return result;
    fit(parcel, count, room);
    return read_vectors(&req->facts.caller, parcel->vectors, count, parcel->data, parcel->size);
}

/* A granted socket of the host's network stays with those whose calls are judged: another cage's may not be. */
static int leads_outside(int fd, const struct psb_rules *rules) {
    int domain = 0;
    socklen_t size = sizeof domain;
    if (!rules->network || getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &size) < 0) return 0;
    return (domain == AF_INET || domain == AF_INET6) && is_of_host(fd, rules);
}

/* The caller's descriptors become ours for the time of the send. */
static int translate_rights(struct emulated_call *req, const struct psb_rules *rules, struct cmsghdr *rights,
                            struct parcel *parcel, struct borrowed *borrowed) {
    const size_t count = (rights->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    int *fds = (int *)(void *)CMSG_DATA(rights);
    size_t i;
    for (i = 0; i < count; i++) {
        int fd;
        if (parcel->n_fds == MOST_FDS) return -EINVAL;
        if (parcel->n_fds >= budget_for_messages()) return -ETOOMANYREFS;
        fd = borrow_for_message(borrowed, &req->facts.caller, fds[i]);
        if (fd < 0) return fd;
        parcel->fds[parcel->n_fds++] = fds[i] = fd;
        if (leads_outside(fd, rules)) {
            req->refused = REFUSED_CONTROL;
            return -EPERM;
        }
    }
    return 0;
}

/* It chooses the sender's address and device, which are the host's own where the socket is. */
static int is_source(const struct cmsghdr *data) {
    return (data->cmsg_level == SOL_IP && data->cmsg_type == IP_PKTINFO) ||
           (data->cmsg_level == SOL_IPV6 && data->cmsg_type == IPV6_PKTINFO);
}

/* The ancillary data that an IP socket may send: what says how a packet travels, and nothing that says where to, as a
 * source route does (IP_RETOPTS, IPV6_RTHDR). */
static int is_harmless(const struct emulated_call *req, const struct cmsghdr *data) {
    static const struct {
        int level, type;
    } KNOWN[] = {
        {SOL_IP, IP_TTL},          {SOL_IP, IP_TOS},       {SOL_IPV6, IPV6_TCLASS},        {SOL_IPV6, IPV6_HOPLIMIT},
        {SOL_IPV6, IPV6_DONTFRAG}, {SOL_UDP, UDP_SEGMENT}, {SOL_TLS, TLS_SET_RECORD_TYPE},
    };
    size_t i;
    if (is_source(data)) return !req->facts.host_netns && !req->replacement;
    for (i = 0; i < sizeof KNOWN / sizeof *KNOWN; i++)
        if (data->cmsg_level == KNOWN[i].level && data->cmsg_type == KNOWN[i].type) return 1;
    return 0;
}

/* SOL_SOCKET data other than descriptors (credentials, marks) would be the supervisor's, not the caller's. */
static int judge_control(struct emulated_call *req, const struct psb_rules *rules, struct cmsghdr *each,
                         struct parcel *parcel, struct borrowed *borrowed) {
    if (is_inet(&req->facts) && is_harmless(req, each)) return 0;
    if (each->cmsg_level != SOL_SOCKET || each->cmsg_type != SCM_RIGHTS || req->facts.domain != AF_UNIX) return -EPERM;
    return translate_rights(req, rules, each, parcel, borrowed);
}

/* By hand, as the kernel goes through it: what it takes and this overlooks would be sent unjudged, and a descriptor in
 * there would be one of the supervisor's. CMSG_NXTHDR of glibc before 2.36 overlooks a last one that is not padded. */
static int judge_each(struct emulated_call *req, const struct psb_rules *rules, struct parcel *parcel,
                      struct borrowed *borrowed) {
    size_t at = 0;
    int result = 0;
    while (!result && at + sizeof(struct cmsghdr) <= parcel->control_size) {
        struct cmsghdr *each = (struct cmsghdr *)(void *)(parcel->ancillary.control + at);
        if (each->cmsg_len < CMSG_LEN(0) || each->cmsg_len > parcel->control_size - at) return -EINVAL;
        result = judge_control(req, rules, each, parcel, borrowed);
        at += CMSG_ALIGN(each->cmsg_len);
    }
    return result;
}

static int read_control(struct emulated_call *req, const struct psb_rules *rules, struct parcel *parcel,
                        struct borrowed *borrowed) {
    int result;
    if (!parcel->header.msg_control || !parcel->header.msg_controllen) return 0;
    if (rules->refuse_control) {
        req->refused = REFUSED_CONTROL;
        return -EPERM;
    }
    if (parcel->header.msg_controllen > CONTROL_ROOM) return -ENOBUFS;
    parcel->control_size = parcel->header.msg_controllen;
    result = read_exactly(&req->facts.caller, (uint64_t)(uintptr_t)parcel->header.msg_control,
                          parcel->ancillary.control, parcel->control_size);
    return result ? result : judge_each(req, rules, parcel, borrowed);
}

static int64_t send_parcel(struct emulated_call *req, const struct psb_rules *rules, struct parcel *parcel, int flags) {
    struct sockaddr_storage to = {0};
    struct iovec data = {parcel->data, parcel->size};
    struct msghdr out = {.msg_iov = &data, .msg_iovlen = 1};
    uint32_t size = req->facts.address.size;
    int held = -1, result = 0;
    int64_t sent;
    memcpy(&to, req->facts.address.bytes, sizeof req->facts.address.bytes);
    if (size && req->facts.domain == AF_UNIX) result = reach_unix(req, rules, &to, &size, &held);
    if (req->facts.domain == AF_NETLINK) result = may_send_netlink(req, parcel->data, parcel->size);
    if (req->facts.domain == AF_NETLINK) size = 0;
    if (result) return result;
    if (size) {
        out.msg_name = &to;
        out.msg_namelen = size;
    }
    if (parcel->control_size) {
        out.msg_control = parcel->ancillary.control;
        out.msg_controllen = parcel->control_size;
    }
    sent = sendmsg(req->socket, &out, (flags & PLAIN_FLAGS) | MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent < 0) sent = -errno;
    if (held >= 0) close_own(held);
    return sent;
}

int is_stream(const struct emulated_call *req) {
    socklen_t size = sizeof(int);
    int type = 0;
    getsockopt(req->socket, SOL_SOCKET, SO_TYPE, &type, &size);
    return type == SOCK_STREAM;
}

static size_t room_for(const struct emulated_call *req) {
    return is_inet(&req->facts) && !is_stream(req) ? LARGEST_DATAGRAM + 1 : DATA_ROOM;
}

/* Only what is read below is ever looked at: clearing it all would cost more than most sends. */
static struct parcel *new_parcel(void) {
    struct parcel *parcel = malloc(sizeof *parcel);
    if (!parcel) return NULL;
    parcel->size = parcel->control_size = 0;
    parcel->n_fds = 0;
    return parcel;
}

/* One message whose address is in the call; *carried: descriptors. */
static int64_t send_one(struct emulated_call *req, uint64_t header, int flags, const struct psb_rules *rules,
                        struct borrowed *borrowed, int *carried) {
    const size_t room = room_for(req);
    struct parcel *parcel = new_parcel();
    int64_t sent;
    if (!parcel) return -ENOBUFS;
    sent = read_exactly(&req->facts.caller, header, &parcel->header, sizeof parcel->header);
    if (!sent) sent = gather(req, parcel, room);
    if (!sent && parcel->size == room && !is_stream(req)) sent = -EMSGSIZE; /* a part of it is another message */
    if (!sent) sent = read_control(req, rules, parcel, borrowed);
    if (!sent) sent = send_parcel(req, rules, parcel, flags);
    *carried = parcel->n_fds;
    while (parcel->n_fds) give_back(borrowed, parcel->fds[--parcel->n_fds]);
    free(parcel);
    return sent;
}

/* Whether the message goes where the first one does, which was decided. */
static int is_alike(const struct emulated_call *req, uint64_t header) {
    const struct call_address *first = &req->facts.address;
    struct call_address next;
    if (read_message_address(&req->facts.caller, req->facts.number, header, &next)) return 0;
    return next.size == first->size && !memcmp(next.bytes, first->bytes, sizeof next.bytes);
}

/* Whoever has the caller's number when a message has been sent: its memory was opened before. Only where that cannot be
 * opened (a program that may not be dumped, or read) a moment is left, from a look to the write. */
static void tell_length(const struct emulated_call *req, int memory, uint64_t header, uint32_t size) {
    const uint64_t place = header + offsetof(struct mmsghdr, msg_len);
    if (memory >= 0)
        (void)write_memory(memory, place, &size, sizeof size);
    else
        (void)write_target(&req->facts.caller, place, &size, sizeof size);
}

/* Sends one message after the other. Stops at the first that cannot be sent, or whose address is not the one that was
 * decided; and, when other threads wait for this cage's mutex, after a bounded amount. */
static int64_t send_each(struct emulated_call *req, const struct psb_rules *rules, struct borrowed *borrowed,
                         int memory) {
    const uint32_t count = (uint32_t)req->facts.args[2] > VECTORS ? VECTORS : (uint32_t)req->facts.args[2];
    const int flags = (int)req->facts.args[3];
    int64_t sent = 0, bytes = 0;
    int carried = 0;
    uint32_t i;
    for (i = 0; i < count && i < TURN_MESSAGES && bytes < TURN_BYTES && !carried; i++) {
        const uint64_t header = req->facts.args[1] + i * sizeof(struct mmsghdr);
        if (i && !is_alike(req, header)) break;
        sent = send_one(req, header, flags, rules, borrowed, &carried);
        if (sent < 0) break;
        bytes += sent;
        tell_length(req, memory, header, (uint32_t)sent);
    }
    return i ? (int64_t)i : sent;
}

static int64_t send_many(struct emulated_call *req, const struct psb_rules *rules, struct borrowed *borrowed) {
    const int memory = open_memory(&req->facts.caller);
    int64_t sent;
    sent = send_each(req, rules, borrowed, memory);
    if (memory >= 0) close_own(memory);
    return sent;
}

enum call_outcome send_messages(struct emulated_call *req, const struct psb_rules *rules, struct borrowed *borrowed) {
    const int many = req->facts.number == SYS_sendmmsg;
    int carried;
    if (many && !(uint32_t)req->facts.args[2]) {
        req->value = 0;
        return CALL_DONE;
    }
    req->value = many ? send_many(req, rules, borrowed)
                      : send_one(req, req->facts.args[1], (int)req->facts.args[2], rules, borrowed, &carried);
    return CALL_DONE;
}
