/* Three passes, one after the other: what cannot be seen is left out, full width is ASCII, and a letter of Greek or
 * Cyrillic is ASCII where it touches a letter of ASCII: nobody writes a word in two alphabets. */
#include "folded.h"

#include <string.h>

#include "stretches.h"
#include "words.h"

enum {
    LETTERS_TOGETHER = 8
};

/* Bytes of UTF-8: a lead of one or two bytes, the range of the next one, and how many more there are. */
struct invisible {
    uint8_t lead[2], size, low, high, more;
};

static const struct invisible INVISIBLE[] = {
    {{0xe2, 0x80}, 2, 0x8b, 0x8f, 0},                                   /* zero width, marks of direction */
    {{0xe2, 0x80}, 2, 0xaa, 0xae, 0}, {{0xe2, 0x81}, 2, 0xa0, 0xaf, 0}, /* joiners */
    {{0xef, 0xbb}, 2, 0xbf, 0xbf, 0},                                   /* byte order mark */
    {{0xc2}, 1, 0xad, 0xad, 0},                                         /* soft hyphen */
    {{0xcd}, 1, 0x80, 0xaf, 0},       {{0xcc}, 1, 0x80, 0xbf, 0},       /* combining marks */
    {{0xef, 0xb8}, 2, 0x80, 0x8f, 0},                                   /* variation selectors */
    {{0xe1, 0x85}, 2, 0x9f, 0xa0, 0}, {{0xe1, 0xa0}, 2, 0x8e, 0x8e, 0}, /* fillers */
    {{0xf3, 0xa0}, 2, 0x80, 0x87, 1},                                   /* tags */
};

static int is_next(uint8_t byte) {
    return byte >= 0x80 && byte < 0xc0;
}

/* How long the invisible character is that begins here; 0: it is none. */
static unsigned invisible_size(const uint8_t *text, uint64_t left) {
    const struct invisible *each;
    for (each = INVISIBLE; each < INVISIBLE + sizeof INVISIBLE / sizeof *INVISIBLE; each++) {
        unsigned size = each->size + 1u + each->more;
        if (size > left || memcmp(text, each->lead, each->size)) continue;
        if (text[each->size] < each->low || text[each->size] > each->high) continue;
        if (each->more && !is_next(text[size - 1])) continue;
        return size;
    }
    return 0;
}

/* Whether one may begin with this byte. */
static int is_lead(uint8_t c) {
    return c >= 0xc2 && (c == 0xe2 || c == 0xc2 || c == 0xcc || c == 0xcd || c == 0xe1 || c == 0xef || c == 0xf3);
}

/* How many bytes of ASCII come next; none where they are too few to be worth it. */
static uint64_t ascii_ahead(const uint8_t *text, uint64_t size, uint64_t at) {
    if (size - at < 8 || !psb_are_ascii(psb_eight(text + at))) return 0;
    return psb_skip_ascii(text, size, at) - at;
}

static uint64_t drop_invisible(const uint8_t *blob, uint64_t size, uint8_t *out) {
    uint64_t at = 0, said = 0;
    while (at < size) {
        uint64_t plain = ascii_ahead(blob, size, at);
        unsigned hidden;
        if (plain) {
            memcpy(out + said, blob + at, plain);
            said += plain, at += plain;
            continue;
        }
        hidden = is_lead(blob[at]) ? invisible_size(blob + at, size - at) : 0;
        at += hidden;
        if (!hidden) out[said++] = blob[at++];
    }
    return said;
}

/* U+FF01 to U+FF5E are EF BC 81 to EF BD 9E. */
static unsigned narrow_letter(const uint8_t *text, uint64_t left) {
    unsigned code = 0;
    if (left > 2 && (text[1] & 0xfe) == 0xbc && is_next(text[2]))
        code = (unsigned)(text[1] & 1) << 6 | (text[2] & 0x3f);
    return code >= 0x01 && code <= 0x5e ? code + 0x20 : 0;
}

static uint64_t narrow(uint8_t *text, uint64_t size) {
    uint64_t at = 0, said = 0;
    while (at < size) {
        const uint8_t *next = memchr(text + at, 0xef, size - at);
        uint64_t before = (next ? (uint64_t)(next - text) : size) - at;
        unsigned letter;
        if (said != at) memmove(text + said, text + at, before);
        said += before, at += before;
        if (at == size) break;
        letter = narrow_letter(text + at, size - at);
        text[said++] = letter ? (uint8_t)letter : text[at];
        at += letter ? 3 : 1;
    }
    return said;
}

static int is_of_token(uint8_t c) {
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' || c == '.' ||
           c == '-';
}

static int is_letter(const uint8_t *text, uint64_t left) {
    return left > 1 && text[0] >= 0xce && text[0] <= 0xd1 && is_next(text[1]);
}

static uint64_t replace_alike(uint8_t *text, uint64_t size, const struct psb_alike *alike) {
    uint64_t at = 0, said = 0, i;
    uint8_t before = 0; /* as it was read: text[at - 1] may be written by now */
    while (at < size) {
        uint64_t end = at, plain = ascii_ahead(text, size, at);
        int touches;
        if (plain) {
            memmove(text + said, text + at, plain);
            said += plain, at += plain, before = text[said - 1];
            continue;
        }
        while (end - at < 2 * LETTERS_TOGETHER && is_letter(text + end, size - end)) end += 2;
        if (end == at) {
            before = text[said++] = text[at++];
            continue;
        }
        touches = is_of_token(before) || (end < size && is_of_token(text[end]));
        before = text[end - 1];
        for (i = at; i < end; i += 2) {
            uint8_t second = text[i + 1], letter = touches ? alike->letters[text[i] - 0xce][second & 0x3f] : 0;
            text[said++] = letter ? letter : text[i];
            if (!letter) text[said++] = second;
        }
        at = end;
    }
    return said;
}

uint64_t psb_fold(const uint8_t *blob, uint64_t size, const struct psb_alike *alike, uint8_t *out) {
    return replace_alike(out, narrow(out, drop_invisible(blob, size, out)), alike);
}
