/* The network rule of the C half: an address against the list. pysandbox/handlers/network_rules.py says the same, and a
 * table of cases is run against both (tests/unit/handlers/test_network_rules.py). */
#include "reach.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/syscall.h>

/* What a cage with a network of its own has for itself, whatever the list says: its loopback, and the addresses that
 * stand for names and doors. A grant never leads there, so never to the host's loopback. */
static const struct psb_endpoint CAGE_OWN[] = {
    {.address = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 127}, .prefix = 104},
    {.address = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 198, 18}, .prefix = 111},
    {.address = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}, .prefix = 128},
};

int within(const uint8_t *address, const struct psb_endpoint *endpoint) {
    const uint32_t whole = endpoint->prefix / 8, rest = endpoint->prefix % 8;
    if (memcmp(address, endpoint->address, whole)) return 0;
    return !rest || !((address[whole] ^ endpoint->address[whole]) >> (8 - rest));
}

static int is_cage_own(const uint8_t *address) {
    size_t i;
    for (i = 0; i < sizeof CAGE_OWN / sizeof *CAGE_OWN; i++)
        if (within(address, &CAGE_OWN[i])) return 1;
    return 0;
}

/* All that the list says of the address: bits of enum psb_reach. */
static uint32_t listed(const struct psb_rules *rules, const uint8_t *address, uint16_t port, int protocol) {
    const uint32_t bit = protocol == IPPROTO_TCP ? 1 : protocol == IPPROTO_UDP ? 2 : 0;
    uint32_t reach = 0, i;
    for (i = 0; i < rules->n_endpoints; i++) {
        const struct psb_endpoint *each = &rules->endpoints[i];
        if (each->protocols & bit && port >= each->first_port && port <= each->last_port && within(address, each))
            reach |= each->reach;
    }
    return is_cage_own(address) ? reach & PSB_REACH_LOCAL : reach;
}

/* Without an address a send goes where the socket leads. With one of the host's network a cage may neither wait for
 * callers nor undo a connect, after which the socket could be bound. */
static uint32_t reach_without_address(const struct call_facts *facts) {
    const int harmless = facts->number != SYS_bind && facts->number != SYS_listen && facts->number != SYS_connect;
    return harmless || !facts->host_netns ? PSB_REACH_LOCAL : 0;
}

uint32_t reach_of(const struct call_facts *facts, const struct psb_rules *rules) {
    const int connects = facts->number == SYS_connect;
    uint8_t address[16];
    uint16_t port;
    uint32_t reach;
    if (facts->number == SYS_bind || facts->number == SYS_listen) return reach_without_address(facts);
    if (connects ? family(&facts->address) == AF_UNSPEC : !facts->address.size) return reach_without_address(facts);
    if (to_in6(&facts->address, address, &port)) return 0;
    reach = listed(rules, address, port, facts->protocol);
    if (facts->owner != OWNER_OTHER && !(reach & PSB_REACH_OWN)) reach &= ~(uint32_t)PSB_REACH_GRANT;
    if (rules->grants && reach & PSB_REACH_GRANT) return PSB_REACH_GRANT;
    return facts->host_netns ? 0 : reach & PSB_REACH_LOCAL;
}

int may_stand_for(const struct call_facts *facts, const struct psb_rules *rules, const uint8_t *real) {
    uint8_t address[16];
    uint16_t port;
    if (facts->number != SYS_connect || facts->protocol != IPPROTO_TCP) return 0;
    if (to_in6(&facts->address, address, &port)) return 0;
    if (facts->domain != AF_INET6 && !is_four(real)) return 0; /* no socket of its family can be connected there */
    return (listed(rules, real, port, facts->protocol) & PSB_REACH_NAMED) != 0;
}

void set_destination(const struct call_facts *facts, const struct route *route, struct sockaddr_storage *to,
                     uint32_t *size) {
    uint8_t asked[16];
    uint16_t port = 0;
    if (!route->named || to_in6(&facts->address, asked, &port)) return;
    memset(to, 0, sizeof *to);
    if (facts->domain == AF_INET) {
        struct sockaddr_in *four = (struct sockaddr_in *)to;
        four->sin_family = AF_INET;
        four->sin_port = htons(port);
        memcpy(&four->sin_addr, route->real + 12, 4);
        *size = sizeof *four;
    } else {
        struct sockaddr_in6 *six = (struct sockaddr_in6 *)to;
        six->sin6_family = AF_INET6;
        six->sin6_port = htons(port);
        memcpy(&six->sin6_addr, route->real, 16);
        *size = sizeof *six;
    }
}

int psb_reach_of(const struct psb_rules *rules, const struct psb_asked *asked) {
    static const enum address_owner OWNERS[] = {OWNER_OTHER, OWNER_HOST, OWNER_UNKNOWN};
    struct call_facts facts = {
        .number = SYS_connect,
        .domain = asked->real ? AF_INET6 : 0,
        .protocol = asked->protocol,
        .host_netns = asked->host_netns,
        .owner = OWNERS[asked->own % 3],
        .address.size = asked->size,
    };
    if (asked->size > sizeof facts.address.bytes) return -EINVAL;
    memcpy(facts.address.bytes, asked->address, asked->size);
    normalize(&facts.address, facts.number);
    if (asked->real && may_stand_for(&facts, rules, asked->real)) return PSB_REACH_GRANT;
    return (int)reach_of(&facts, rules);
}
