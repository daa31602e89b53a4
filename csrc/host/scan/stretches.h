/* The texts in bytes: the stretches of them that are printable ASCII (read by cffi, preprocessor lines stripped). */
#ifndef PSB_HOST_SCAN_STRETCHES_H
#define PSB_HOST_SCAN_STRETCHES_H

#include <stdint.h>

enum {
    PSB_SHORTEST_STRETCH = 16,
    PSB_BREAK = 1, /* the byte between two stretches */

    PSB_HAS_NUL = 1, /* what psb_bytes_of says */
    PSB_HAS_BEYOND_ASCII = 2,
    PSB_IS_UTF8 = 4,
};

/* Flags of what is in a blob. */
int psb_bytes_of(const uint8_t *blob, uint64_t size);

/* Its parts; and the first byte from `at` on that is not ASCII. */
uint64_t psb_skip_ascii(const uint8_t *blob, uint64_t size, uint64_t at);
int psb_is_beyond_ascii(const uint8_t *blob, uint64_t size);
int psb_is_utf8(const uint8_t *blob, uint64_t size);

/* Whether there are as many bytes in a row that are printable, or NUL, as a stretch must have. */
int psb_may_have_stretch(const uint8_t *blob, uint64_t size);

/* The stretches with a break between two of them, as if there were no NULs where `skips_nul`; of a blob that is ASCII,
 * all of it. Writes them to `out` unless it is NULL; it may be the blob itself. Returns how many bytes they are, never
 * more than the blob has. */
uint64_t psb_stretches(const uint8_t *blob, uint64_t size, int skips_nul, uint8_t *out);

/* Where gzip's, zlib's or zstd's format may begin, from `at` on; the size when nowhere. */
uint64_t psb_find_compressed(const uint8_t *blob, uint64_t size, uint64_t at);

#endif
