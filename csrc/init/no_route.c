/* Whether something in a cage without a way out looked for a host: the kernel counts what it had no route for, for each
 * network namespace (RFC 1213, ipOutNoRoutes; RFC 4293, ipv6IfStatsOutNoRoutes), and names are asked of a server to
 * which there is none (pysandbox/compile/network.py). So nobody has to watch, and it is read when a command has failed.
 */
#include "../uapi.h"
#include "init.h"

#define OUT_NO_ROUTES 12 /* of the numbers in the second line (net/ipv4/proc.c) */

static const char IPV6[] = "Ip6OutNoRoutes"; /* a line of its own, among the first of the file (net/ipv6/proc.c) */

static void next_line(const char **at, const char *end) {
    while (*at < end && *(*at)++ != '\n') {}
}

static uint64_t of_ipv4(const char *at, const char *end) {
    long value = 0;
    int number;
    next_line(&at, end);
    for (number = 0; number <= OUT_NO_ROUTES; number++) value = number_at(&at, end); /* the first is its name */
    return (uint64_t)value;
}

static int begins_with_ipv6(const char *at, const char *end) {
    size_t i;
    for (i = 0; i < sizeof IPV6 - 1; i++, at++)
        if (at == end || *at != IPV6[i]) return 0;
    return 1;
}

static uint64_t of_ipv6(const char *at, const char *end) {
    uint64_t value = 0;
    while (at < end && !begins_with_ipv6(at, end)) next_line(&at, end);
    if (at == end) return 0;
    for (at += sizeof IPV6 - 1; at < end && *at != '\n'; at++)
        if (*at >= '0' && *at <= '9') value = value * 10 + (uint64_t)(*at - '0');
    return value;
}

/* 0 where the file is not there, as of IPv6 on a host without it. */
static uint64_t count_in(const char *path, uint64_t (*of)(const char *at, const char *end)) {
    char text[1024];
    const long fd = open_own(path, O_RDONLY | O_CLOEXEC);
    long size;
    if (fd < 0) return 0;
    size = sys_call(SYS_read, fd, text, sizeof text, 0, 0, 0);
    sys_close((int)fd);
    return size > 0 ? of(text, text + size) : 0;
}

/* Nothing is read when a command succeeds or begins: so what was counted may be another one's. */
static int was_alone(const struct cage *cage, const struct command *command) {
    uint32_t i;
    for (i = 0; i < cage->n_commands; i++)
        if (cage->commands[i].pid && &cage->commands[i] != command) return 0;
    return !cage->others_ended;
}

int met_no_route(struct cage *cage, const struct command *command) {
    const uint64_t before = cage->no_routes;
    if (!(cage->flags & PSB_SETUP_NO_WAY_OUT)) return 0;
    cage->no_routes = count_in("/proc/self/net/snmp", of_ipv4) + count_in("/proc/self/net/snmp6", of_ipv6);
    return cage->no_routes > before && was_alone(cage, command);
}
