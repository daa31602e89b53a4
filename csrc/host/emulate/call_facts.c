/* The socket, its network, the address, and whose that is: in this order, each read once. */
#include "call_facts.h"

#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "direct.h"
#include "reach.h"

int is_inet(const struct call_facts *facts) {
    return facts->domain == AF_INET || facts->domain == AF_INET6;
}

/* ---- the address ------------------------------------------------------------------------------------------------- */

static int read_plain_address(const struct target *caller, int number, uint64_t at, int64_t size,
                              struct call_address *address) {
    int result;
    memset(address->bytes, 0, sizeof address->bytes);
    if ((int32_t)size < 0 || (int32_t)size > ADDRESS_ROOM) return -EINVAL;
    address->size = (uint32_t)(int32_t)size;
    result = address->size ? read_exactly(caller, at, address->bytes, address->size) : 0;
    if (result) return result;
    normalize(address, number);
    return 0;
}

int read_message_address(const struct target *caller, int number, uint64_t header, struct call_address *address) {
    struct msghdr message;
    int result = read_exactly(caller, header, &message, sizeof message);
    if (result) return result;
    if (!message.msg_name) message.msg_namelen = 0;
    if ((int32_t)message.msg_namelen < 0) return -EINVAL;
    if (message.msg_namelen > ADDRESS_ROOM) message.msg_namelen = ADDRESS_ROOM; /* as the kernel cuts it */
    return read_plain_address(caller, number, (uint64_t)(uintptr_t)message.msg_name, (int64_t)message.msg_namelen,
                              address);
}

static int read_address(const struct call_facts *received, struct call_address *address) {
    const uint64_t *args = received->args;
    switch (received->number) {
    case SYS_connect:
    case SYS_bind: return read_plain_address(&received->caller, received->number, args[1], (int32_t)args[2], address);
    case SYS_listen: return 0;
    case SYS_sendto: return read_plain_address(&received->caller, received->number, args[4], (int32_t)args[5], address);
    default: return read_message_address(&received->caller, received->number, args[1], address);
    }
}

/* ---- the socket, and all of it ----------------------------------------------------------------------------------- */

/* Its domain and its protocol: 0 or -errno. */
static int ask_socket(int socket, struct call_facts *facts) {
    socklen_t size = sizeof facts->domain;
    if (getsockopt(socket, SOL_SOCKET, SO_DOMAIN, &facts->domain, &size) < 0) return -errno;
    if (is_inet(facts) || facts->domain == AF_NETLINK)
        getsockopt(socket, SOL_SOCKET, SO_PROTOCOL, &facts->protocol, &size);
    return 0;
}

/* Asks the kernel, where a grant hangs on it: one that holds even for the host's own addresses does not. */
static enum address_owner owner_of(const struct call_facts *facts, const struct psb_rules *rules) {
    struct call_facts of_other = *facts;
    uint8_t address[16];
    uint16_t port;
    of_other.owner = OWNER_OTHER;
    if (!rules->network || reach_of(&of_other, rules) != PSB_REACH_GRANT) return OWNER_UNKNOWN;
    if (reach_of(facts, rules) == PSB_REACH_GRANT || to_in6(&facts->address, address, &port)) return OWNER_UNKNOWN;
    return psb_is_own(address) ? OWNER_HOST : OWNER_OTHER;
}

int find_facts(const struct call_facts *received, const struct psb_rules *rules, struct borrowed *borrowed,
               struct call_facts *facts, int *socket) {
    int result;
    *facts = *received;
    *socket = borrow_fd(borrowed, &received->caller, (int)received->args[0]);
    if (*socket < 0) {
        result = *socket;
        *socket = -1;
        return result;
    }
    result = ask_socket(*socket, facts);
    if (!result) result = read_address(received, &facts->address);
    if (result || !is_inet(facts)) return result;
    if (rules->network) facts->host_netns = is_of_host(*socket, rules);
    facts->owner = owner_of(facts, rules);
    return 0;
}
