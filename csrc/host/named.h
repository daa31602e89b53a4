/* The addresses of one cage that stand for names: where a connect to each leads, and until when. The caller holds the
 * notifier's mutex. */
#ifndef PSB_NAMED_H
#define PSB_NAMED_H

#include <stdint.h>

#include "behalf.h"

struct names {
    struct named *all; /* NULL until the first */
    uint32_t count;
};

/* Until then the first address stands for the second, at these ports: 0 or -ENOMEM. */
int remember_name(struct names *names, const uint8_t *synthetic, const uint8_t *real, uint16_t first_port,
                  uint16_t last_port, uint64_t until_ms);
void forget_names(struct names *names);

/* Says in the deed whether its address stands for one that the rules name, and for which. */
void look_up_name(const struct names *names, const struct psb_rules *rules, struct deed *deed);

#endif
