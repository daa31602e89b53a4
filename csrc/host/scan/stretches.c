/* Most bytes that are looked at are noise: pictures, and base64 that was decoded from the wrong letter on. So it is
 * tried to skip: where the last of sixteen bytes is not printable, no stretch begins before it. */
#include "stretches.h"

#include <string.h>

#include "words.h"

/* A bit for each byte below 128. */
static const uint64_t PRINTABLE[2] = {0xffffffff00002600u, 0x7fffffffffffffffu};

static int is_part(uint8_t byte, int skips_nul) {
    if (byte >= 0x80) return 0;
    return (PRINTABLE[byte >> 6] >> (byte & 63) & 1) || (skips_nul && !byte);
}

/* Where the first stretch may begin that is as long as it has to be, NULs counted in; the size when nowhere. */
static uint64_t next_stretch(const uint8_t *blob, uint64_t size, uint64_t at, int skips_nul) {
    while (size - at >= PSB_SHORTEST_STRETCH) {
        uint64_t last = at + PSB_SHORTEST_STRETCH;
        while (last > at && is_part(blob[last - 1], skips_nul)) last--;
        if (last == at) return at;
        at = last;
    }
    return size;
}

/* Where the stretch ends that begins at `at`, and in *said how many bytes it has without NULs. */
static uint64_t end_of_stretch(const uint8_t *blob, uint64_t size, uint64_t at, int skips_nul, uint64_t *said) {
    uint64_t begin = at, nuls = 0;
    while (at < size) {
        uint64_t end;
        while (size - at >= 8 && psb_are_printable(psb_eight(blob + at))) at += 8;
        for (end = size - at < 8 ? size : at + 8; at < end && is_part(blob[at], skips_nul); at++) nuls += !blob[at];
        if (at < end) break;
    }
    *said = at - begin - nuls;
    return at;
}

/* `said`: how many bytes they are. */
static void copy_without_nul(const uint8_t *from, uint64_t size, uint64_t said, uint8_t *out) {
    uint64_t at;
    if (said == size) {
        memmove(out, from, size);
        return;
    }
    for (at = 0; at < size; at++)
        if (from[at]) *out++ = from[at];
}

static uint64_t without_nul(const uint8_t *blob, uint64_t size, uint8_t *out) {
    uint64_t at, said = 0;
    for (at = 0; at < size; at++) said += blob[at] != 0;
    if (said < PSB_SHORTEST_STRETCH) return 0;
    if (out) copy_without_nul(blob, size, said, out);
    return said;
}

uint64_t psb_stretches(const uint8_t *blob, uint64_t size, int skips_nul, uint8_t *out) {
    uint64_t at = 0, total = 0;
    if ((skips_nul || !size || !memchr(blob, 0, size)) && !psb_is_beyond_ascii(blob, size))
        return without_nul(blob, size, out);
    while ((at = next_stretch(blob, size, at, skips_nul)) < size) {
        uint64_t said, begin = at;
        at = end_of_stretch(blob, size, begin, skips_nul, &said);
        if (said < PSB_SHORTEST_STRETCH) continue; /* and nothing is written: there is room for what counts alone */
        if (out && total) out[total] = PSB_BREAK;
        total += total > 0;
        if (out) copy_without_nul(blob + begin, at - begin, said, out + total);
        total += said;
    }
    return total;
}

/* How many bytes the character has that begins here; 0 for none (RFC 3629: none twice, no halves, none beyond 10FFFF).
 */
static unsigned utf8_size(const uint8_t *text, uint64_t left) {
    uint8_t first = text[0], low = 0x80, high = 0xbf;
    unsigned i, size = first < 0x80 ? 1 : first < 0xc2 ? 0 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : first < 0xf5 ? 4 : 0;
    if (!size || size > left) return 0;
    if (first == 0xe0) low = 0xa0;
    if (first == 0xed) high = 0x9f;
    if (first == 0xf0) low = 0x90;
    if (first == 0xf4) high = 0x8f;
    for (i = 1; i < size; i++, low = 0x80, high = 0xbf)
        if (text[i] < low || text[i] > high) return 0;
    return size;
}

uint64_t psb_skip_ascii(const uint8_t *blob, uint64_t size, uint64_t at) {
    while (size - at >= 8 && psb_are_ascii(psb_eight(blob + at))) at += 8;
    while (at < size && blob[at] < 0x80) at++;
    return at;
}

int psb_is_beyond_ascii(const uint8_t *blob, uint64_t size) {
    return psb_skip_ascii(blob, size, 0) < size;
}

int psb_is_utf8(const uint8_t *blob, uint64_t size) {
    uint64_t at = psb_skip_ascii(blob, size, 0);
    while (at < size) {
        unsigned character = utf8_size(blob + at, size - at);
        if (!character) return 0;
        at = psb_skip_ascii(blob, size, at + character);
    }
    return 1;
}

int psb_bytes_of(const uint8_t *blob, uint64_t size) {
    int flags = size && memchr(blob, 0, size) ? PSB_HAS_NUL : 0;
    if (!psb_is_beyond_ascii(blob, size)) return flags | PSB_IS_UTF8;
    return flags | PSB_HAS_BEYOND_ASCII | (psb_is_utf8(blob, size) ? PSB_IS_UTF8 : 0);
}

int psb_may_have_stretch(const uint8_t *blob, uint64_t size) {
    return next_stretch(blob, size, 0, 1) < size;
}

static int begins_compressed(const uint8_t *blob, uint64_t left) {
    if (blob[0] == 0x78) return left > 1 && (blob[1] == 0x01 || blob[1] == 0x5e || blob[1] == 0x9c || blob[1] == 0xda);
    if (blob[0] == 0x1f) return left > 2 && blob[1] == 0x8b && blob[2] == 0x08;
    return left > 3 && blob[1] == 0xb5 && blob[2] == 0x2f && blob[3] == 0xfd;
}

uint64_t psb_find_compressed(const uint8_t *blob, uint64_t size, uint64_t at) {
    static const uint8_t is_first[256] = {[0x1f] = 1, [0x28] = 1, [0x78] = 1};
    for (; at < size; at++)
        if (is_first[blob[at]] && begins_compressed(blob + at, size - at)) return at;
    return size;
}
