/* The records of the reader of doors (csrc/host/relay/dial_records.c, known.c): none is read beyond its end, what is
 * read is written the same, and a table finds what was put there last. Input: a record. */
#include "../host/relay/dial_records.h"
#include "../host/relay/known.h"
#include "require.h"

static void keep(const struct record_field *said, uint16_t port) {
    static struct known table[MOST_KNOWN];
    struct known known = {.port = port, .until = 2};
    if (!set_name(&known.said, said->bytes, said->size)) {
        REQUIRE(!said->size || said->size > LONGEST_KNOWN);
        return;
    }
    *place_for(table, said->bytes, said->size, port) = known;
    REQUIRE(find_known(table, said->bytes, said->size, port, 1));
    REQUIRE(!find_known(table, said->bytes, said->size, port, 2));
    if (port % 7 == 0) {
        forget_known(table, said->bytes, said->size);
        REQUIRE(!find_known(table, said->bytes, said->size, port, 1));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char *said = exact_copy(data, size), *again = exact_copy(data, size);
    struct dial_record record;
    uint64_t port = 0;
    size_t i;
    if (!read_record(said, size, &record)) {
        REQUIRE(write_record(&record, again, size) == size && !memcmp(said, again, size));
        REQUIRE(!write_record(&record, again, size - 1));
        for (i = 0; i < record.count; i++)
            if (!read_count(&record.fields[i], 65535, &port)) REQUIRE(port <= 65535);
        for (i = 0; i < record.count; i++) keep(&record.fields[i], (uint16_t)port);
    }
    free(said), free(again);
    return 0;
}
