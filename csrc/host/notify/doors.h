/* The doors of a cage that has no network namespace (../emulate/door.h). The caller holds the cage's mutex. */
#ifndef PSB_DOORS_H
#define PSB_DOORS_H

#include <stdint.h>

#include "../emulate/reach.h"

#define MOST_DOORS 4

struct doors {
    struct door all[MOST_DOORS];
    uint32_t count;
};

/* Keeps the sink until close_doors: 0 or -ENOSPC. */
int add_door(struct doors *doors, const uint8_t *address, uint16_t port, int sink);
/* The door to which a TCP connection to this address leads; NULL: there is none. */
const struct door *find_door(const struct doors *doors, const struct call_facts *facts);
void close_doors(struct doors *doors);

#endif
