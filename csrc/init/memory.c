/* Memory without a libc: the two functions that a compiler may call although we did not, and one that it may not leave
 * out. */
#include "init.h"

void *memset(void *to, int value, size_t size);
void *memcpy(void *restrict to, const void *restrict from, size_t size);

void *memset(void *to, int value, size_t size) {
    volatile uint8_t *bytes = to; /* volatile: or the loop becomes a call to itself */
    while (size--) *bytes++ = (uint8_t)value;
    return to;
}

void *memcpy(void *restrict to, const void *restrict from, size_t size) {
    volatile uint8_t *bytes = to;
    const uint8_t *source = from;
    while (size--) *bytes++ = *source++;
    return to;
}

void fill(void *to, uint8_t value, size_t size) {
    volatile uint8_t *bytes = to;
    while (size--) *bytes++ = value;
}
