/* Eight bytes of a text at once. */
#ifndef PSB_HOST_SCAN_WORDS_H
#define PSB_HOST_SCAN_WORDS_H

#include <stdint.h>
#include <string.h>

static const uint64_t PSB_EACH_BYTE = 0x0101010101010101u;

static inline uint64_t psb_eight(const uint8_t *text) {
    uint64_t eight;
    memcpy(&eight, text, sizeof eight);
    return eight;
}

static inline int psb_are_ascii(uint64_t eight) {
    return !(eight & PSB_EACH_BYTE << 7);
}

/* From 20 to 7E; says no of a few that are. */
static inline int psb_are_printable(uint64_t eight) {
    return psb_are_ascii(eight | (eight - PSB_EACH_BYTE * 0x20) | (eight + PSB_EACH_BYTE));
}

#endif
