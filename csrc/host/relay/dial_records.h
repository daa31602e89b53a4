/* The records that the reader and the dialler exchange, in the form of gate/inspection/channel.py: a kind, a number and
 * a few fields. What comes is a stranger's word. */
#ifndef PSB_RELAY_DIAL_RECORDS_H
#define PSB_RELAY_DIAL_RECORDS_H

#include <stddef.h>
#include <stdint.h>

#define LONGEST_RECORD (256 * 1024)
#define LONGEST_SAID (128 * 1024) /* of a client's first words, in one record */
#define MOST_RECORD_FIELDS 4

/* gate/reading/kinds.py has the same numbers. */
enum dial_verb {
    VERB_DIALLED = 7,
    VERB_FAILED = 9,
    VERB_OVER = 12,
    VERB_CUT = 13,
    VERB_DIAL = 14,
    VERB_GIVE_UP = 17,
    VERB_SPLICE = 18,
    VERB_SAY = 19,
    VERB_RELEASE = 20,
    VERB_LET_GO = 22,
    VERB_PASS = 28,
    VERB_OFFER = 29,
    VERB_GO = 30,
    VERB_FETCH = 31
};

struct record_field {
    const char *bytes;
    size_t size;
};

struct dial_record {
    enum dial_verb verb;
    uint64_t number;
    int has_socket; /* a descriptor comes with it */
    size_t count;
    struct record_field fields[MOST_RECORD_FIELDS];
};

/* 0, or -EPROTO for what is none of the reader's records; the fields point into `said`. */
int read_record(const char *said, size_t size, struct dial_record *record);
/* A decimal number, not above `most`: 0, or -EPROTO. */
int read_count(const struct record_field *field, uint64_t most, uint64_t *count);
/* A number of a record, big-endian. */
uint64_t number_at(const char *bytes, size_t size);
void put_number(char *out, uint64_t number, size_t size);
/* Its size; 0 where it does not fit. */
size_t write_record(const struct dial_record *record, char *out, size_t room);

#endif
