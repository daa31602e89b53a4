/* The addresses of one cage that stand for names: where a connect to each leads, and until when. The caller holds the
 * cage's mutex. */
#ifndef PSB_NAMED_H
#define PSB_NAMED_H

#include <stdint.h>

#include "../emulate/reach.h"

struct names {
    struct named *all; /* NULL until the first */
    uint32_t count;
};

/* Until then the first address stands for the second, at these ports: 0 or -ENOMEM. */
int remember_name(struct names *names, const uint8_t *synthetic, const uint8_t *real, uint16_t first_port,
                  uint16_t last_port, uint64_t until_ms);
void forget_names(struct names *names);

/* Where a call leads: of the addresses that its own stands for, the first to which the rules let a name lead; else the
 * address itself. Nowhere (0) for another family than IP, whose calls have no route. */
struct route find_route(const struct names *names, const struct psb_rules *rules, const struct call_facts *facts);

#endif
