/* Escapes of URLs, JSON and HTML (read by cffi, preprocessor lines stripped). */
#ifndef PSB_HOST_SCAN_ESCAPES_H
#define PSB_HOST_SCAN_ESCAPES_H

#include <stdint.h>

enum {
    PSB_MOST_LAYERS = 32
}; /* of escapes inside each other */

struct psb_unescaped {
    uint64_t said;    /* bytes that were written */
    int is_too_often; /* a line is escaped more than PSB_MOST_LAYERS times over, and was left so */
};

/* Whether there is an escape. */
int psb_is_escaped(const uint8_t *text, uint64_t size);

/* Behind the next byte from `at` on that is in no encoding which a cut there would part, and the first of no escape;
 * the size when there is none. */
uint64_t psb_find_cut(const uint8_t *text, uint64_t size, uint64_t at);

/* The bytes of those lines that have an escape, with one more for each: as much room as psb_unescape needs. */
uint64_t psb_escaped_size(const uint8_t *text, uint64_t size);

/* The lines that have escapes, without them, however often they were escaped; with a break between two of them. */
void psb_unescape(const uint8_t *text, uint64_t size, uint8_t *out, struct psb_unescaped *result);

/* Whether a plus stands for a blank in it where a credential has a blank: after BEGIN, or after Bearer. */
int psb_is_form(const uint8_t *text, uint64_t size);

#endif
