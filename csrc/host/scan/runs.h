/* What is encoded in the runs of a text: base64, base32, hexadecimal (read by cffi, preprocessor lines stripped). */
#ifndef PSB_HOST_SCAN_RUNS_H
#define PSB_HOST_SCAN_RUNS_H

#include <stdint.h>

enum {
    PSB_SEPARATOR = 0x40, /* in `values`: passed over within a run; all below are letters */
    PSB_NO_LETTER = 0x80,
    PSB_SMALL_BLOB = 2040,    /* what is decoded and is no longer is looked at here */
    PSB_MOST_OF_TEXTS = 4096, /* that are said together */
    PSB_ROOM_OF_TEXTS = 8192,
};

/* An encoding of so many bits a letter. */
struct psb_alphabet {
    uint64_t least;      /* letters of a run that is decoded */
    uint32_t bits;       /* four to six */
    uint32_t phases;     /* letters that a byte may begin at */
    uint32_t skips_0x;   /* the 0 before an x is no letter: C's and Go's spelling of a byte */
    uint8_t values[256]; /* of each letter */
};

/* A text is gone through in turns. Each ends with texts that were decoded, with a blob that is to be looked at by other
 * means, with the wish for more room, or at the end of the text. */
struct psb_runs {
    uint64_t begin, end; /* the run that is being decoded; `end` is where to look for the next one */
    uint64_t letters;    /* of the run; 0: it is decoded */
    uint32_t from;       /* the letter of it where to begin next */
    uint32_t shifts;     /* by how many letters the blob was shifted */
    int waits;           /* for room, with a run that is not decoded */
    uint64_t need;       /* out: bytes of room for a blob without which it does not go on; 0: there was enough */
    uint64_t blob;       /* out: bytes of the blob, 0: none. It is left as it is until the run is over */
    uint64_t said;       /* out: bytes of `texts`; after each text stand a break and the end of a line */
    uint8_t texts[PSB_ROOM_OF_TEXTS];
};

/* Where the first run may begin that is long enough; the size when none is. */
uint64_t psb_find_run(const uint8_t *text, uint64_t size, const struct psb_alphabet *all);

/* One turn: goes on with `runs`, which is zero at first, but for an `end` before which there is no run. Returns 0 when
 * the text is at its end, and brought nothing. */
int psb_decode_runs(const uint8_t *text, uint64_t size, const struct psb_alphabet *all, struct psb_runs *runs,
                    uint8_t *blob, uint64_t room);

#endif
