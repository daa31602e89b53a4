/* Whether an address is one of this host's, as the kernel routes it (rtnetlink(7), RTM_GETROUTE): the source that a
 * connected socket gets says so only of the first address of a network. */
#include <errno.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <string.h>
#include <sys/socket.h>

#include "direct.h"

struct question {
    struct nlmsghdr header;
    struct rtmsg route;
    struct rtattr attribute;
    uint8_t address[16];
};

struct answer {
    struct nlmsghdr header;
    union {
        struct rtmsg route;
        struct nlmsgerr error;
    };
    uint8_t rest[1024];
};

static struct question about(const uint8_t *address) {
    const int four = is_four(address);
    const uint16_t size = four ? 4 : 16;
    struct question question = {
        .header = {.nlmsg_type = RTM_GETROUTE, .nlmsg_flags = NLM_F_REQUEST},
        .route = {.rtm_family = four ? AF_INET : AF_INET6, .rtm_dst_len = (uint8_t)(8 * size)},
        .attribute = {.rta_len = (uint16_t)RTA_LENGTH(size), .rta_type = RTA_DST},
    };
    question.header.nlmsg_len = (uint32_t)(offsetof(struct question, address) + size);
    memcpy(question.address, address + 16 - size, size);
    return question;
}

static int ask(int netlink, const uint8_t *address) {
    const struct question question = about(address);
    struct answer answer;
    ssize_t got;
    if (send(netlink, &question, question.header.nlmsg_len, 0) < 0) return -errno;
    got = recv(netlink, &answer, sizeof answer, MSG_DONTWAIT); /* the kernel has answered by then */
    if (got < (ssize_t)NLMSG_LENGTH(sizeof answer.route)) return got < 0 ? -errno : -EPROTO;
    if (answer.header.nlmsg_type == RTM_NEWROUTE) return answer.route.rtm_type != RTN_UNICAST;
    return answer.header.nlmsg_type == NLMSG_ERROR ? 0 : -EPROTO; /* no way there at all */
}

int psb_is_own(const uint8_t *address) {
    const int netlink = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
    int result;
    if (netlink < 0) return -errno;
    result = ask(netlink, address);
    close_own(netlink);
    return result;
}
