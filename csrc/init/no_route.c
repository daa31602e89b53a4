/* Whether something in a cage without a way out looked for a host: the kernel counts what it had no route for, for each
 * network namespace (RFC 1213, ipOutNoRoutes), and names are asked of a server to which there is none
 * (pysandbox/compile/network.py). So nobody has to watch, and it is read when a command has failed. */
#include "../uapi.h"
#include "init.h"

#define OUT_NO_ROUTES 12 /* of the numbers in the second line (net/ipv4/proc.c) */

static uint64_t number_of_line(const char *text, const char *end) {
    long value = 0;
    int number;
    while (text < end && *text++ != '\n') {}
    for (number = 0; number <= OUT_NO_ROUTES; number++) value = number_at(&text, end); /* the first is its name */
    return (uint64_t)value;
}

/* Nothing is read when a command succeeds or begins: so what was counted may be another one's. */
static int was_alone(const struct cage *cage, const struct command *command) {
    uint32_t i;
    for (i = 0; i < cage->n_commands; i++)
        if (cage->commands[i].pid && &cage->commands[i] != command) return 0;
    return !cage->others_ended;
}

int met_no_route(struct cage *cage, const struct command *command) {
    char text[1024];
    const uint64_t before = cage->no_routes;
    long fd, size;
    if (!(cage->flags & PSB_SETUP_NO_WAY_OUT)) return 0;
    fd = open_own("/proc/self/net/snmp", O_RDONLY | O_CLOEXEC);
    if (fd < 0) return 0;
    size = sys_call(SYS_read, fd, text, sizeof text, 0, 0, 0);
    sys_close((int)fd);
    if (size > 0) cage->no_routes = number_of_line(text, text + size);
    return cage->no_routes > before && was_alone(cage, command);
}
