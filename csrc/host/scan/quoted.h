/* Quoted-printable (RFC 2045, 6.7; read by cffi, preprocessor lines stripped). */
#ifndef PSB_HOST_SCAN_QUOTED_H
#define PSB_HOST_SCAN_QUOTED_H

#include <stdint.h>

/* Where a line of quoted-printable may be told, from `at` on: a soft break at its end, or two escapes in a row. The
 * size when nowhere. */
uint64_t psb_find_quoted(const uint8_t *text, uint64_t size, uint64_t at);

/* What such lines say, with a break between two that are not one behind the other. `out` has room for as many bytes as
 * the text has. Returns how many were written. */
uint64_t psb_unquote(const uint8_t *text, uint64_t size, uint8_t *out);

#endif
