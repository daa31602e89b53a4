/* Where any of a set of literals stands in a text (read by cffi, preprocessor lines stripped). */
#ifndef PSB_HOST_SCAN_LITERALS_H
#define PSB_HOST_SCAN_LITERALS_H

#include <stdint.h>

enum {
    PSB_MOST_LITERALS = 512,
    PSB_SHORTEST_LITERAL = 3,
    PSB_LONGEST_LITERAL = 32,
    PSB_MOST_NOMINATIONS = 1024, /* of one call: more than there are literals */
};

/* Sorted by their bytes; each has three or more. */
struct psb_literals {
    uint8_t begins[8192]; /* a bit for the psb_hash_of_literal of each three bytes with which one begins */
    uint8_t either[8192]; /* these, and what follows the first byte of one: of three bytes, whatever the last is */
    uint16_t first[257];  /* those that begin with the byte c: first[c] to first[c + 1] */
    uint8_t size[PSB_MOST_LITERALS];
    uint8_t text[PSB_MOST_LITERALS][PSB_LONGEST_LITERAL];
};

/* A number below 65536 that its first three bytes have. */
uint32_t psb_hash_of_literal(const uint8_t *text);

struct psb_nominations {
    uint64_t next; /* in: where to begin; out: where to go on, the size of the text at its end */
    uint32_t count;
    uint32_t which[PSB_MOST_NOMINATIONS];
    uint64_t at[PSB_MOST_NOMINATIONS];
};

/* Fills the table, and stops when it is full. */
void psb_find_literals(const uint8_t *text, uint64_t size, const struct psb_literals *all,
                       struct psb_nominations *found);

#endif
