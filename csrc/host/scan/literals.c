/* One pass over a text, without the interpreter's lock: of each two places a hash of three bytes is looked up in a
 * bitmap, which says whether a literal may begin at either; where one may, those with its first byte are compared. */
#include "literals.h"

#include <endian.h>
#include <string.h>

static uint32_t hash_of(uint32_t three) {
    return (three * 0x9e3779b1u) >> 16;
}

static uint32_t three_bytes(const uint8_t *text) {
    return (uint32_t)text[0] | (uint32_t)text[1] << 8 | (uint32_t)text[2] << 16;
}

uint32_t psb_hash_of_literal(const uint8_t *text) {
    return hash_of(three_bytes(text));
}

static int has(const uint8_t *bitmap, uint32_t three) {
    uint32_t hash = hash_of(three);
    return bitmap[hash >> 3] >> (hash & 7) & 1;
}

/* The first of every two places from `at` on, up to `last`, where a literal may begin there or after it. */
static uint64_t next_two(const uint8_t *text, uint64_t last, const struct psb_literals *all, uint64_t at) {
    for (; at + 1 < last; at += 2) {
        uint32_t four;
        memcpy(&four, text + at + 1, sizeof four);
        if (has(all->either, le32toh(four) & 0xffffff)) break;
    }
    return at;
}

static void compare(const uint8_t *text, uint64_t left, uint64_t at, const struct psb_literals *all,
                    struct psb_nominations *found) {
    unsigned row;
    for (row = all->first[text[0]]; row < all->first[text[0] + 1] && row < PSB_MOST_LITERALS; row++) {
        size_t size = all->size[row];
        if (size > left || size > PSB_LONGEST_LITERAL || memcmp(text, all->text[row], size)) continue;
        found->which[found->count] = row;
        found->at[found->count++] = at;
    }
}

/* Whether there was room for them. */
static int look(const uint8_t *text, uint64_t size, uint64_t at, const struct psb_literals *all,
                struct psb_nominations *found) {
    if (!has(all->begins, three_bytes(text + at))) return 1;
    if (found->count + PSB_MOST_LITERALS > PSB_MOST_NOMINATIONS) return 0;
    compare(text + at, size - at, at, all, found);
    return 1;
}

void psb_find_literals(const uint8_t *text, uint64_t size, const struct psb_literals *all,
                       struct psb_nominations *found) {
    uint64_t last = size < PSB_SHORTEST_LITERAL ? 0 : size - PSB_SHORTEST_LITERAL, at = found->next;
    found->count = 0;
    while (size >= PSB_SHORTEST_LITERAL && at <= last) {
        at = next_two(text, last, all, at);
        for (unsigned two = 0; two < 2 && at <= last; two++, at++) {
            if (look(text, size, at, all, found)) continue;
            found->next = at;
            return;
        }
    }
    found->next = size;
}
