/* Two passes over a text, without the interpreter's lock: runs of letters and digits, each held against the entropy
 * that its alphabet would give at its length; and bytes that are no text at all. */
#include "opaque.h"

#include <string.h>

#include "../scan/words.h"

enum {
    DIGIT = 1,
    LOWER = 2,
    UPPER = 4,
    OTHER = 8,
    BEYOND_HEX = 16,
    BEYOND_32 = 32,
    IN_RUN = DIGIT | LOWER | UPPER | OTHER
};
enum {
    OF_10,
    OF_16,
    OF_32,
    OF_36,
    OF_64,
    OF_NONE
};
enum {
    SYMBOLS = 128,
    SLASHES = 16 /* symbols of base64 to one of them, and more */
};

static uint8_t kind_of(uint8_t c) {
    if (c >= '0' && c <= '9') return DIGIT | (c < '2' || c > '7' ? BEYOND_32 : 0);
    if (c >= 'a' && c <= 'z') return LOWER | (c > 'f' ? BEYOND_HEX : 0);
    if (c >= 'A' && c <= 'Z') return UPPER | (c > 'F' ? BEYOND_HEX : 0);
    return c == '-' || c == '_' || c == '+' || c == '/' ? OTHER : 0;
}

static void fill_kinds(uint8_t kinds[256]) {
    unsigned c;
    for (c = 0; c < 256; c++) kinds[c] = kind_of((uint8_t)c);
}

/* Which alphabet a run of so many symbols is of, by the kinds of them. */
static unsigned alphabet(unsigned kinds, unsigned digits, unsigned size) {
    unsigned letters = kinds & (LOWER | UPPER);
    if (!digits) return OF_NONE;
    if (!letters) return kinds & OTHER ? OF_NONE : OF_10;
    if (!(kinds & BEYOND_HEX)) return OF_16;
    if (letters == (LOWER | UPPER)) return OF_64;
    if (digits * (kinds & OTHER ? 3 : 8) < size) return OF_NONE; /* a name with a number in it */
    return kinds & BEYOND_32 ? OF_36 : OF_32;
}

/* Whether the symbols of a run are spread as data is. */
static int is_opaque(const uint8_t *run, unsigned size, const uint8_t kinds[256], const struct psb_entropy *expected) {
    uint16_t counts[SYMBOLS] = {0};
    unsigned at, seen = 0, digits = 0, distinct = 0, which;
    double lost = 0, bits;
    for (at = 0; at < size; at++) {
        seen |= kinds[run[at]];
        counts[run[at] & (SYMBOLS - 1)]++;
    }
    for (at = '+'; at <= 'z'; at++) {
        if (!counts[at]) continue;
        if (at >= '0' && at <= '9') digits += counts[at];
        lost += expected->weight[counts[at]];
        distinct++;
    }
    bits = (expected->weight[size] - lost) / size;
    which = alphabet(seen, digits, size);
    if (which != OF_NONE && bits >= expected->least[which][size]) return 1;
    return size >= PSB_OWN_ALPHABET && distinct >= 8 &&
           bits >= expected->share * (expected->weight[distinct] / distinct - 0.72 * (distinct - 1) / size);
}

static void add(struct psb_opaque *found, uint64_t begin, uint64_t end) {
    found->begin[found->count] = begin;
    found->end[found->count++] = end;
}

static void judge(const uint8_t *text, uint64_t begin, uint64_t end, const uint8_t kinds[256],
                  const struct psb_entropy *expected, struct psb_opaque *found) {
    if (end - begin < PSB_SHORTEST_RUN) return;
    if (is_opaque(text + begin, (unsigned)(end - begin), kinds, expected)) add(found, begin, end);
}

/* A slash is one of the symbols of base64, once in 64; where there are more of them, it is between the parts of a path.
 * What is not opaque as a whole may be so between two of such symbols. */
static void judge_parts(const uint8_t *text, uint64_t begin, uint64_t end, const uint8_t kinds[256],
                        const struct psb_entropy *expected, struct psb_opaque *found) {
    uint64_t at, part = begin, slashes = 0, others = 0;
    uint32_t before = found->count;
    for (at = begin; at < end; at++) {
        slashes += text[at] == '/';
        others += (kinds[text[at]] & OTHER) != 0;
    }
    if (slashes * SLASHES <= end - begin) judge(text, begin, end, kinds, expected, found);
    if (!others || found->count > before) return;
    for (at = begin; at <= end; at++) {
        if (at < end && !(kinds[text[at]] & OTHER)) continue;
        judge(text, part, at, kinds, expected, found);
        part = at + 1;
    }
}

void psb_find_opaque(const uint8_t *text, uint64_t size, const struct psb_entropy *expected, struct psb_opaque *found) {
    uint8_t kinds[256];
    uint64_t at = found->next, begin;
    fill_kinds(kinds);
    found->count = 0;
    while (size - at >= PSB_SHORTEST_RUN) {
        /* The last of so many symbols is looked at first: where it is in no run, none of that length begins before. */
        begin = at;
        at += PSB_SHORTEST_RUN;
        while (at > begin && kinds[text[at - 1]] & IN_RUN) at--;
        if (at > begin) continue;
        at = begin + PSB_SHORTEST_RUN;
        while (at < size && at - begin < PSB_LONGEST_RUN && kinds[text[at]] & IN_RUN) at++;
        judge_parts(text, begin, at, kinds, expected, found);
        if (found->count + PSB_LONGEST_RUN / PSB_SHORTEST_RUN < PSB_MOST_OPAQUE) continue;
        found->next = at;
        return;
    }
    found->next = size;
}

static int is_hex(uint8_t c) {
    return (c >= '0' && c <= '9') || ((c | 32) >= 'a' && (c | 32) <= 'f');
}

static int is_escape(const uint8_t *text) {
    if (text[0] == '%') return is_hex(text[1]) || text[1] == 'u';
    if (text[0] == '\\') return text[1] == 'u' || text[1] == 'x' || (text[1] >= '0' && text[1] <= '3');
    return text[0] == '&' && text[1] == '#';
}

uint64_t psb_find_escapes(const uint8_t *text, uint64_t size, uint64_t at, uint64_t part, uint64_t many) {
    static const uint8_t is_first[256] = {['%'] = 1, ['\\'] = 1, ['&'] = 1};
    for (; at < size; at += part) {
        uint64_t end = size - at < part ? size : at + part, each, escapes = 0;
        for (each = at; each + 1 < end; each++) escapes += is_first[text[each]] && is_escape(text + each);
        if (escapes >= many) return at;
    }
    return size;
}

/* The size of the character that is at the beginning, 0 for what is no text. */
static unsigned character(const uint8_t *text, uint64_t left) {
    uint8_t first = text[0];
    unsigned size, at;
    if (first < 0x80) return (first >= 0x20 && first < 0x7F) || first == '\t' || first == '\r' || first == '\n';
    size = first >= 0xC2 && first < 0xE0   ? 2
           : first >= 0xE0 && first < 0xF0 ? 3
           : first >= 0xF0 && first < 0xF5 ? 4
                                           : 0;
    if (!size || size > left) return 0;
    for (at = 1; at < size; at++)
        if ((text[at] & 0xC0) != 0x80) return 0;
    if (first == 0xC2 && text[1] < 0xA0) return 0;                                        /* controls */
    if ((first == 0xE0 && text[1] < 0xA0) || (first == 0xF0 && text[1] < 0x90)) return 0; /* longer than it need be */
    if ((first == 0xED && text[1] >= 0xA0) || (first == 0xF4 && text[1] >= 0x90)) return 0;
    return size;
}

void psb_find_bytes(const uint8_t *text, uint64_t size, struct psb_opaque *found) {
    uint64_t at = found->next, begin = size, end = size, words = at;
    found->count = 0;
    for (; at < size; at++) {
        unsigned long_as;
        while (begin == size && size - at > 8 && psb_are_printable(psb_eight(text + at))) at += 8;
        long_as = character(text + at, size - at);
        if (long_as) {
            at += long_as - 1;
            if (begin == size || at + 1 - words < PSB_SHORTEST_TEXT) continue;
            if (end - begin >= PSB_SHORTEST_BYTES) add(found, begin, end);
            begin = size;
            if (found->count < PSB_MOST_OPAQUE) continue;
            found->next = at + 1;
            return;
        }
        if (begin == size) begin = at;
        words = end = at + 1;
    }
    if (begin < size && end - begin >= PSB_SHORTEST_BYTES) add(found, begin, end);
    found->next = size;
}
