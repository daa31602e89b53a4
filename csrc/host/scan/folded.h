/* A text without what cannot be seen, and with ASCII for what looks like it (read by cffi, preprocessor lines
 * stripped). */
#ifndef PSB_HOST_SCAN_FOLDED_H
#define PSB_HOST_SCAN_FOLDED_H

#include <stdint.h>

/* ASCII for two bytes of UTF-8 that look like it: by the first, from CE to D1, and the second, from 80 to BF; 0: none.
 */
struct psb_alike {
    uint8_t letters[4][64];
};

/* Returns how many bytes it wrote: fewer than the blob has, unless there was nothing to fold. */
uint64_t psb_fold(const uint8_t *blob, uint64_t size, const struct psb_alike *alike, uint8_t *out);

#endif
