/* One pass over a text, without the interpreter's lock: a hash of three bytes is looked up in a bitmap, and where they
 * may begin a literal, those with the first of them are compared. */
#include "literals.h"

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

static int may_begin(const struct psb_literals *all, uint32_t three) {
    uint32_t hash = hash_of(three);
    return all->begins[hash >> 3] >> (hash & 7) & 1;
}

/* The first place from `at` on where a literal may begin; the size where none does. */
static uint64_t next_place(const uint8_t *text, uint64_t size, const struct psb_literals *all, uint64_t at) {
    uint32_t three;
    if (size < PSB_SHORTEST_LITERAL || at > size - PSB_SHORTEST_LITERAL) return size;
    three = three_bytes(text + at) << 8;
    for (; at <= size - PSB_SHORTEST_LITERAL; at++) {
        three = three >> 8 | (uint32_t)text[at + 2] << 16;
        if (may_begin(all, three)) return at;
    }
    return size;
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

void psb_find_literals(const uint8_t *text, uint64_t size, const struct psb_literals *all,
                       struct psb_nominations *found) {
    uint64_t at;
    found->count = 0;
    for (at = next_place(text, size, all, found->next); at < size; at = next_place(text, size, all, at + 1)) {
        if (found->count + PSB_MOST_LITERALS > PSB_MOST_NOMINATIONS) {
            found->next = at;
            return;
        }
        compare(text + at, size - at, at, all, found);
    }
    found->next = size;
}
