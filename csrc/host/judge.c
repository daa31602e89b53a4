/* Where an IP call may lead: the address as it was read, against the list. Nothing here touches a socket. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/syscall.h>

#include "behalf.h"

static const uint8_t MAPPED[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};

/* What a cage with a network of its own has for itself, whatever the list says: its loopback, and the addresses that
 * stand for names and doors. A grant never leads there, so never to the host's loopback. */
static const struct psb_endpoint OWN[] = {
    {.address = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 127}, .prefix = 104},
    {.address = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 198, 18}, .prefix = 111},
    {.address = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}, .prefix = 128},
};

sa_family_t family(const struct deed *deed) {
    sa_family_t family = AF_UNSPEC;
    if (deed->address_size >= sizeof family) memcpy(&family, deed->address, sizeof family);
    return family;
}

/* What is sent, or bound (__inet_bind), with AF_UNSPEC is of an IPv4 address; a connect to it undoes a connect. */
static void settle_family(struct deed *deed) {
    const sa_family_t inet = AF_INET;
    if (family(deed) == AF_UNSPEC && deed->number != SYS_connect) memcpy(deed->address, &inet, sizeof inet);
}

/* For a destination, "any" means the loopback address. */
static void settle_any(struct deed *deed) {
    struct sockaddr_in *four = (struct sockaddr_in *)deed->address;
    struct sockaddr_in6 *six = (struct sockaddr_in6 *)deed->address;
    if (deed->number == SYS_bind) return;
    if (family(deed) == AF_INET && deed->address_size >= sizeof *four && four->sin_addr.s_addr == INADDR_ANY)
        four->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (family(deed) != AF_INET6 || deed->address_size < sizeof *six) return;
    if (IN6_IS_ADDR_UNSPECIFIED(&six->sin6_addr)) six->sin6_addr = in6addr_loopback;
    if (IN6_IS_ADDR_V4MAPPED(&six->sin6_addr) && !six->sin6_addr.s6_addr32[3])
        six->sin6_addr.s6_addr32[3] = htonl(INADDR_LOOPBACK);
}

void settle(struct deed *deed) {
    settle_family(deed);
    settle_any(deed);
}

int spell(const struct deed *deed, uint8_t *bytes, uint16_t *port) {
    const struct sockaddr_in *four = (const struct sockaddr_in *)deed->address;
    const struct sockaddr_in6 *six = (const struct sockaddr_in6 *)deed->address;
    if (family(deed) == AF_INET && deed->address_size >= sizeof *four) {
        memcpy(bytes, MAPPED, sizeof MAPPED);
        memcpy(bytes + sizeof MAPPED, &four->sin_addr, 4);
        *port = ntohs(four->sin_port);
        return 0;
    }
    if (family(deed) != AF_INET6 || deed->address_size < offsetof(struct sockaddr_in6, sin6_scope_id)) return -1;
    memcpy(bytes, &six->sin6_addr, 16);
    *port = ntohs(six->sin6_port);
    return 0;
}

int is_four(const uint8_t *address) {
    return !memcmp(address, MAPPED, sizeof MAPPED);
}

int can_have(const struct deed *deed, const uint8_t *address) {
    return deed->domain == AF_INET6 || is_four(address);
}

void aim(const struct deed *deed, struct sockaddr_storage *to, uint32_t *size) {
    uint8_t asked[16];
    uint16_t port = 0;
    if (!deed->named || spell(deed, asked, &port)) return;
    memset(to, 0, sizeof *to);
    if (deed->domain == AF_INET) {
        struct sockaddr_in *four = (struct sockaddr_in *)to;
        four->sin_family = AF_INET;
        four->sin_port = htons(port);
        memcpy(&four->sin_addr, deed->real + sizeof MAPPED, 4);
        *size = sizeof *four;
    } else {
        struct sockaddr_in6 *six = (struct sockaddr_in6 *)to;
        six->sin6_family = AF_INET6;
        six->sin6_port = htons(port);
        memcpy(&six->sin6_addr, deed->real, 16);
        *size = sizeof *six;
    }
}

static int within(const uint8_t *address, const struct psb_endpoint *endpoint) {
    const uint32_t whole = endpoint->prefix / 8, rest = endpoint->prefix % 8;
    if (memcmp(address, endpoint->address, whole)) return 0;
    return !rest || !((address[whole] ^ endpoint->address[whole]) >> (8 - rest));
}

static int is_own(const uint8_t *address) {
    size_t i;
    for (i = 0; i < sizeof OWN / sizeof *OWN; i++)
        if (within(address, &OWN[i])) return 1;
    return 0;
}

/* Every way by which the list lets the address be reached. */
static uint32_t ways_to(const struct psb_rules *rules, const uint8_t *address, uint16_t port, int protocol, int own) {
    const uint32_t bit = protocol == IPPROTO_TCP ? 1 : protocol == IPPROTO_UDP ? 2 : 0;
    uint32_t ways = 0, i;
    for (i = 0; i < rules->n_endpoints; i++) {
        const struct psb_endpoint *each = &rules->endpoints[i];
        if (each->protocols & bit && port >= each->first_port && port <= each->last_port && within(address, each))
            ways |= each->ways;
    }
    if (own && !(ways & PSB_WAY_OWN)) ways &= ~(uint32_t)PSB_WAY_GRANT;
    return is_own(address) ? ways & PSB_WAY_LOCAL : ways;
}

/* Without an address a send goes where the socket leads. With one of the host's network a cage may neither wait for
 * callers nor undo a connect, after which the socket could be bound. */
static uint32_t way_without_address(const struct deed *deed) {
    const int harmless = deed->number != SYS_bind && deed->number != SYS_listen && deed->number != SYS_connect;
    return harmless || !deed->foreign ? PSB_WAY_LOCAL : 0;
}

uint32_t way_of(const struct deed *deed, const struct psb_rules *rules) {
    const int connects = deed->number == SYS_connect;
    uint8_t address[16];
    uint16_t port;
    uint32_t ways;
    if (deed->number == SYS_bind || deed->number == SYS_listen) return way_without_address(deed);
    if (connects ? family(deed) == AF_UNSPEC : !deed->address_size) return way_without_address(deed);
    if (spell(deed, address, &port)) return 0;
    if (deed->named && ways_to(rules, deed->real, port, deed->protocol, 0) & PSB_WAY_NAMED) return PSB_WAY_GRANT;
    ways = ways_to(rules, address, port, deed->protocol, deed->own);
    if (rules->grants && ways & PSB_WAY_GRANT) return PSB_WAY_GRANT;
    return deed->foreign ? 0 : ways & PSB_WAY_LOCAL;
}

int psb_listed(const struct psb_rules *rules, const uint8_t *address, uint32_t size, int protocol) {
    struct deed deed = {.number = SYS_connect, .socket = -1, .protocol = protocol, .address_size = size};
    if (size > sizeof deed.address) return -EINVAL;
    memcpy(deed.address, address, size);
    settle(&deed);
    return (int)way_of(&deed, rules);
}
