/* What the decoders of escapes have in common: hexadecimal digits, and where a byte is next. */
#ifndef PSB_HOST_SCAN_LETTERS_H
#define PSB_HOST_SCAN_LETTERS_H

#include <stdint.h>
#include <string.h>

/* -1 for what is no digit. */
static inline int psb_digit(uint8_t c) {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* How many hexadecimal digits there are, `most` at most. */
static inline unsigned psb_digits(const uint8_t *text, uint64_t left, unsigned most) {
    unsigned count = 0;
    while (count < left && count < most && psb_digit(text[count]) >= 0) count++;
    return count;
}

static inline unsigned psb_number(const uint8_t *text, unsigned count, unsigned base) {
    unsigned i, sum = 0;
    for (i = 0; i < count; i++) sum = sum * base + (unsigned)psb_digit(text[i]);
    return sum;
}

/* The next place of a byte from `at` on; the size when there is none. */
static inline uint64_t psb_find(const uint8_t *text, uint64_t size, uint64_t at, uint8_t byte) {
    const uint8_t *found = at < size ? (const uint8_t *)memchr(text + at, byte, size - at) : NULL;
    return found ? (uint64_t)(found - text) : size;
}

#endif
