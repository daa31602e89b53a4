/* See doors.h. */
#include "doors.h"

#include <errno.h>
#include <netinet/in.h>
#include <string.h>

#include "borrowed.h"

int add_door(struct doors *doors, const uint8_t *address, uint16_t port, int sink) {
    if (doors->count == MOST_DOORS) return -ENOSPC;
    memcpy(doors->all[doors->count].address, address, sizeof doors->all[0].address);
    doors->all[doors->count].port = port;
    doors->all[doors->count++].sink = sink;
    return 0;
}

const struct door *find_door(const struct doors *doors, const struct call_facts *facts) {
    uint8_t asked[16];
    uint16_t port;
    uint32_t i;
    if (!doors->count || facts->protocol != IPPROTO_TCP || to_in6(&facts->address, asked, &port)) return NULL;
    for (i = 0; i < doors->count; i++)
        if (port == doors->all[i].port && !memcmp(asked, doors->all[i].address, sizeof asked)) return &doors->all[i];
    return NULL;
}

void close_doors(struct doors *doors) {
    while (doors->count) close_own(doors->all[--doors->count].sink);
}
