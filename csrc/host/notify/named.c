/* Addresses that stand for names. The gatekeeper puts them here when it has resolved a name; how long one lasts, and
 * what it leads to, is its decision. */
#include "named.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "../emulate/emulate.h"

#define NAMED 1024 /* addresses of one cage that stand for another */

struct named {
    uint8_t synthetic[16], real[16];
    uint16_t first_port, last_port;
    uint64_t until_ms;
};

/* The place for one: its own, a new one, or that of whichever would be forgotten first. */
static struct named *place_for(struct names *names, const struct named *wanted) {
    struct named *oldest = names->all;
    uint32_t i;
    for (i = 0; i < names->count; i++) {
        if (!memcmp(&names->all[i], wanted, offsetof(struct named, until_ms))) return &names->all[i];
        if (names->all[i].until_ms < oldest->until_ms) oldest = &names->all[i];
    }
    return names->count < NAMED ? &names->all[names->count++] : oldest;
}

int remember_name(struct names *names, const uint8_t *synthetic, const uint8_t *real, uint16_t first_port,
                  uint16_t last_port, uint64_t until_ms) {
    struct named named;
    memset(&named, 0, sizeof named); /* its padding is compared */
    memcpy(named.synthetic, synthetic, sizeof named.synthetic);
    memcpy(named.real, real, sizeof named.real);
    named.first_port = first_port;
    named.last_port = last_port;
    named.until_ms = until_ms;
    if (!names->all) names->all = calloc(NAMED, sizeof *names->all);
    if (!names->all) return -ENOMEM;
    *place_for(names, &named) = named;
    return 0;
}

void forget_names(struct names *names) {
    free(names->all);
}

/* A name's address that is not remembered any more is one of the cage's own network, as any other. */
static const struct named *find_name(const struct names *names, const struct psb_rules *rules,
                                     const struct call_facts *facts) {
    const uint64_t now = names->count ? now_ms() : 0;
    uint8_t asked[16];
    uint16_t port;
    uint32_t i;
    if (!names->count || to_in6(&facts->address, asked, &port)) return NULL;
    for (i = 0; i < names->count; i++) {
        const struct named *each = &names->all[i];
        if (memcmp(each->synthetic, asked, sizeof asked) || now >= each->until_ms) continue;
        if (port < each->first_port || port > each->last_port) continue;
        if (may_stand_for(facts, rules, each->real)) return each;
    }
    return NULL;
}

struct route find_route(const struct names *names, const struct psb_rules *rules, const struct call_facts *facts) {
    const struct named *name = is_inet(facts) ? find_name(names, rules, facts) : NULL;
    struct route route = {.reach = PSB_REACH_GRANT, .named = 1};
    if (!name) return (struct route){.reach = is_inet(facts) ? reach_of(facts, rules) : 0};
    memcpy(route.real, name->real, sizeof route.real);
    return route;
}
