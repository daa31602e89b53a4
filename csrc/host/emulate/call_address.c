/* An IPv4 address is ::ffff:a.b.c.d here, so that rules speak of one kind. */
#include "call_address.h"

#include <netinet/in.h>
#include <stddef.h>
#include <string.h>
#include <sys/syscall.h>

/* Without a scope id, as RFC 2133 had it: the kernel takes that for an IPv6 address (SIN6_LEN_RFC2133). */
#define SHORTEST_SIX offsetof(struct sockaddr_in6, sin6_scope_id)

static const uint8_t MAPPED[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};

int is_four(const uint8_t *address) {
    return !memcmp(address, MAPPED, sizeof MAPPED);
}

sa_family_t family(const struct call_address *address) {
    sa_family_t family = AF_UNSPEC;
    if (address->size >= sizeof family) memcpy(&family, address->bytes, sizeof family);
    return family;
}

int to_in6(const struct call_address *address, uint8_t *bytes, uint16_t *port) {
    const struct sockaddr_in *four = (const struct sockaddr_in *)address->bytes;
    const struct sockaddr_in6 *six = (const struct sockaddr_in6 *)address->bytes;
    if (family(address) == AF_INET && address->size >= sizeof *four) {
        memcpy(bytes, MAPPED, sizeof MAPPED);
        memcpy(bytes + sizeof MAPPED, &four->sin_addr, 4);
        *port = ntohs(four->sin_port);
        return 0;
    }
    if (family(address) != AF_INET6 || address->size < SHORTEST_SIX) return -1;
    memcpy(bytes, &six->sin6_addr, 16);
    *port = ntohs(six->sin6_port);
    return 0;
}

/* What is sent, or bound (__inet_bind), with AF_UNSPEC is of an IPv4 address; a connect to it undoes a connect. */
static void normalize_family(struct call_address *address, int number) {
    const sa_family_t inet = AF_INET;
    if (family(address) == AF_UNSPEC && number != SYS_connect) memcpy(address->bytes, &inet, sizeof inet);
}

/* For a destination, "any" means the loopback address. */
static void normalize_any(struct call_address *address, int number) {
    struct sockaddr_in *four = (struct sockaddr_in *)address->bytes;
    struct sockaddr_in6 *six = (struct sockaddr_in6 *)address->bytes;
    if (number == SYS_bind) return;
    if (family(address) == AF_INET && address->size >= sizeof *four && four->sin_addr.s_addr == INADDR_ANY)
        four->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (family(address) != AF_INET6 || address->size < SHORTEST_SIX) return;
    if (IN6_IS_ADDR_UNSPECIFIED(&six->sin6_addr)) six->sin6_addr = in6addr_loopback;
    if (IN6_IS_ADDR_V4MAPPED(&six->sin6_addr) && !six->sin6_addr.s6_addr32[3])
        six->sin6_addr.s6_addr32[3] = htonl(INADDR_LOOPBACK);
}

void normalize(struct call_address *address, int number) {
    normalize_family(address, number);
    normalize_any(address, number);
}
