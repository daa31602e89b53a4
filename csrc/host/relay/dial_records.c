/* All sizes are held against what is left; nothing is allocated. */
#include "dial_records.h"

#include <errno.h>
#include <string.h>

#define HEAD 10 /* a kind, a number of eight bytes, how many fields */
#define SIZE 4

static const struct {
    uint8_t verb, fields, has_socket;
} FROM_READER[] = {
    {VERB_DIAL, 4, 0},   {VERB_GIVE_UP, 0, 0}, {VERB_SPLICE, 2, 1}, {VERB_SAY, 1, 0}, {VERB_RELEASE, 1, 0},
    {VERB_LET_GO, 0, 0}, {VERB_PASS, 4, 1},    {VERB_OFFER, 4, 1},  {VERB_GO, 1, 0},  {VERB_FETCH, 0, 0},
};

uint64_t number_at(const char *bytes, size_t size) {
    uint64_t number = 0;
    size_t i;
    for (i = 0; i < size; i++) number = number << 8 | (uint8_t)bytes[i];
    return number;
}

void put_number(char *out, uint64_t number, size_t size) {
    while (size--) {
        out[size] = (char)(number & 0xff);
        number >>= 8;
    }
}

static int is_known(const char *said, struct dial_record *record) {
    size_t i;
    for (i = 0; i < sizeof FROM_READER / sizeof *FROM_READER; i++)
        if (FROM_READER[i].verb == (uint8_t)said[0] && FROM_READER[i].fields == (uint8_t)said[HEAD - 1]) {
            record->verb = FROM_READER[i].verb;
            record->count = FROM_READER[i].fields;
            record->has_socket = FROM_READER[i].has_socket;
            return 1;
        }
    return 0;
}

int read_record(const char *said, size_t size, struct dial_record *record) {
    size_t at = HEAD, i;
    memset(record, 0, sizeof *record);
    if (size < HEAD || !is_known(said, record)) return -EPROTO;
    record->number = number_at(said + 1, 8);
    for (i = 0; i < record->count; i++) {
        if (size - at < SIZE) return -EPROTO;
        record->fields[i].size = (size_t)number_at(said + at, SIZE);
        record->fields[i].bytes = said + (at += SIZE);
        if (record->fields[i].size > size - at) return -EPROTO;
        at += record->fields[i].size;
    }
    return at == size ? 0 : -EPROTO;
}

int read_count(const struct record_field *field, uint64_t most, uint64_t *count) {
    uint64_t read = 0;
    size_t i;
    if (!field->size || field->size > 19) return -EPROTO; /* nothing overflows */
    for (i = 0; i < field->size; i++) {
        if (field->bytes[i] < '0' || field->bytes[i] > '9') return -EPROTO;
        read = read * 10 + (uint64_t)(field->bytes[i] - '0');
    }
    *count = read;
    return read > most ? -EPROTO : 0;
}

size_t write_record(const struct dial_record *record, char *out, size_t room) {
    size_t at = HEAD, i;
    if (room < HEAD) return 0;
    out[0] = (char)record->verb;
    put_number(out + 1, record->number, 8);
    out[HEAD - 1] = (char)record->count;
    for (i = 0; i < record->count; i++) {
        const struct record_field *field = &record->fields[i];
        if (room - at < SIZE || room - at - SIZE < field->size) return 0;
        put_number(out + at, field->size, SIZE);
        if (field->size) memcpy(out + at + SIZE, field->bytes, field->size);
        at += SIZE + field->size;
    }
    return at;
}
