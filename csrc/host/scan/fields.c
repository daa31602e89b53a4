/* Fields are gone through one after the other: a message does not say where its last one begins. A last field lies
 * within the one around it, so each byte is looked at once for each level at most, and of all levels but one only the
 * few before it. */
#include "fields.h"

#define DEEPEST 8   /* messages inside each other */
#define LONGEST 70  /* bits of a varint, in its ten bytes */
#define LEAST_TAG 8 /* of field 1 */

enum wire_type {
    VARINT = 0,
    FIXED64 = 1,
    LENGTH_DELIMITED = 2,
    FIXED32 = 5
};

/* Whether there is one; what is beyond 64 bits of it is dropped, as everywhere. */
static int read_varint(const uint8_t **at, const uint8_t *end, uint64_t *number) {
    unsigned shift;
    *number = 0;
    for (shift = 0; shift < LONGEST && *at < end; shift += 7) {
        const uint8_t byte = *(*at)++;
        *number |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80) return 1;
    }
    return 0;
}

/* How many bytes follow the tag, or its size; -1 where that makes no sense. */
static int read_size(const uint8_t **at, const uint8_t *end, uint64_t tag, uint64_t *size) {
    *size = 0;
    switch (tag & 7) {
    case VARINT: return read_varint(at, end, &tag) ? 0 : -1;
    case FIXED64: *size = 8; break;
    case FIXED32: *size = 4; break;
    case LENGTH_DELIMITED:
        if (!read_varint(at, end, size)) return -1;
        break;
    default: return -1;
    }
    return *size <= (uint64_t)(end - *at) ? 0 : -1;
}

/* Its end, where nothing is said last. */
static const uint8_t *last_of(const uint8_t *at, const uint8_t *end) {
    uint64_t tag, size;
    while (at < end) {
        if (!read_varint(&at, end, &tag) || read_size(&at, end, tag, &size)) return end;
        if ((tag & 7) == LENGTH_DELIMITED && size == (uint64_t)(end - at)) return at;
        if (tag < LEAST_TAG) return end;
        at += size;
    }
    return end;
}

uint64_t psb_last_field(const uint8_t *said, uint64_t size) {
    const uint8_t *from = said, *inner;
    int depth;
    for (depth = 0; depth < DEEPEST; depth++) {
        if ((inner = last_of(from, said + size)) == said + size) break;
        from = inner;
    }
    return (uint64_t)(from - said);
}
