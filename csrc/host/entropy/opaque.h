/* Stretches of a text that look like data and not like language (read by cffi, preprocessor lines stripped). */
#ifndef PSB_HOST_OPAQUE_H
#define PSB_HOST_OPAQUE_H

#include <stdint.h>

enum {
    PSB_SHORTEST_RUN = 20,  /* letters, digits and + - _ / that are looked at together */
    PSB_LONGEST_RUN = 4096, /* what is longer is judged in pieces */
    PSB_OWN_ALPHABET = 512, /* from so many on, a run is also judged by the symbols that it has */
    PSB_SHORTEST_BYTES = 8, /* that are no text */
    PSB_SHORTEST_TEXT = 16, /* that ends such bytes */
    PSB_ALPHABETS = 5,      /* 10, 16, 32, 36 and 64 symbols */
    PSB_MOST_OPAQUE = 1024, /* of one call */
};

/* `least`: the bits a symbol has to have, by alphabet and length; `weight`: n log2 n; `share`: how much of
 * what an alphabet gives counts as opaque. */
struct psb_entropy {
    double least[PSB_ALPHABETS][PSB_LONGEST_RUN + 1];
    double weight[PSB_LONGEST_RUN + 1];
    double share;
};

struct psb_opaque {
    uint64_t next; /* in: where to begin; out: where to go on, the size of the text at its end */
    uint32_t count;
    uint64_t begin[PSB_MOST_OPAQUE];
    uint64_t end[PSB_MOST_OPAQUE];
};

/* Runs of letters and digits whose entropy is that of data. Fills the table, and stops when it is full. */
void psb_find_opaque(const uint8_t *text, uint64_t size, const struct psb_entropy *expected, struct psb_opaque *found);
/* Where the next part of so many bytes begins that has so many escapes (%41, \u0041, \x41, \101, &#65;) or more; the
 * size where none does. */
uint64_t psb_find_escapes(const uint8_t *text, uint64_t size, uint64_t at, uint64_t part, uint64_t many);
/* Bytes that are neither printable ASCII nor UTF-8. */
void psb_find_bytes(const uint8_t *text, uint64_t size, struct psb_opaque *found);

#endif
