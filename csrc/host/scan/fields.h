/* Messages of Protocol Buffers (its encoding: protobuf.dev/programming-guides/encoding; read by cffi, preprocessor
 * lines stripped). */
#ifndef PSB_HOST_SCAN_FIELDS_H
#define PSB_HOST_SCAN_FIELDS_H

#include <stdint.h>

/* Where what the last field of a message says begins, or the last field of that if it is a message, too: it goes to the
 * end. 0 where there is none, as in what is no message. Takes time by the size alone, whatever is nested. */
uint64_t psb_last_field(const uint8_t *said, uint64_t size);

#endif
