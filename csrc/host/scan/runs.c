/* A run is found by its alphabet, and may begin in the middle: before it stands whatever its alphabet allows, too. So
 * it is decoded from each letter where it may begin, into memory that its caller gives: once, and then shifted. Most of
 * what comes out is noise and is dropped here; a text is kept; what may be compressed, or in other letters than ASCII,
 * is the caller's. */
#include "runs.h"

#include <endian.h>
#include <string.h>

#include "stretches.h"
#include "words.h"

/* Whether a byte of C's or Go's spelling begins here: its 0 is no letter. */
static int is_0x(const struct psb_alphabet *all, const uint8_t *text, uint64_t left) {
    return all->skips_0x && left > 1 && text[0] == '0' && (text[1] == 'x' || text[1] == 'X');
}

/* The X of 0X belongs to a run, and no other one. */
static int is_part(const struct psb_alphabet *all, const uint8_t *text, uint64_t at) {
    return all->values[text[at]] != PSB_NO_LETTER || (text[at] == 'X' && at > 0 && is_0x(all, text + at - 1, 2));
}

/* The next run from `at` on that has as many bytes as it must have letters. */
static uint64_t find_run(const struct psb_alphabet *all, const uint8_t *text, uint64_t size, uint64_t at) {
    while (size - at >= all->least) {
        uint64_t last = at + all->least;
        while (last > at && is_part(all, text, last - 1)) last--;
        if (last == at) return at;
        at = last;
    }
    return size;
}

static int next_run(const struct psb_alphabet *all, const uint8_t *text, uint64_t size, struct psb_runs *runs) {
    runs->begin = runs->end = find_run(all, text, size, runs->end);
    while (runs->end < size && is_part(all, text, runs->end)) runs->end++;
    return runs->begin < size;
}

uint64_t psb_find_run(const uint8_t *text, uint64_t size, const struct psb_alphabet *all) {
    return find_run(all, text, size, 0);
}

static uint64_t count_letters(const struct psb_alphabet *all, const uint8_t *run, uint64_t size) {
    uint64_t at, count = 0;
    for (at = 0; at < size; at++) {
        if (is_0x(all, run + at, size - at))
            at++;
        else
            count += all->values[run[at]] < PSB_SEPARATOR;
    }
    return count;
}

/* As many of the letters as stand together without anything between them, by whole bytes: most of a run. `at` is where
 * the next byte begins. */
static uint64_t decode_fours(const uint8_t values[256], const uint8_t *run, uint64_t size, uint64_t *at,
                             uint8_t *blob) {
    uint64_t said = 0;
    while (size - *at >= 4) {
        const uint8_t *four = run + *at;
        unsigned a = values[four[0]], b = values[four[1]], c = values[four[2]], d = values[four[3]];
        unsigned bits = a << 18 | b << 12 | c << 6 | d;
        if ((a | b | c | d) >= PSB_SEPARATOR) break;
        blob[said++] = (uint8_t)(bits >> 16);
        blob[said++] = (uint8_t)(bits >> 8);
        blob[said++] = (uint8_t)bits;
        *at += 4;
    }
    return said;
}

static uint64_t decode_twos(const uint8_t values[256], const uint8_t *run, uint64_t size, uint64_t *at, uint8_t *blob) {
    uint64_t said = 0;
    while (size - *at >= 3) { /* the third may be the x of a 0x that begins with the second */
        const uint8_t *two = run + *at;
        unsigned a = values[two[0]], b = values[two[1]];
        if ((a | b) >= PSB_SEPARATOR || (two[2] | 32) == 'x') break;
        blob[said++] = (uint8_t)(a << 4 | b);
        *at += 2;
    }
    return said;
}

/* As many bytes as its letters make, and what is left of the last one with zeros behind it: `blob` has room for them.
 * Returns the number of letters. */
static uint64_t decode(const struct psb_alphabet *all, const uint8_t *run, uint64_t size, uint8_t *blob) {
    uint64_t at = 0, said = 0, letters = 0;
    uint32_t bits = 0, held = 0;
    while (at < size) {
        uint8_t value;
        if (!held && all->bits != 5) {
            uint64_t begin = at;
            said += all->bits == 6 ? decode_fours(all->values, run, size, &at, blob + said)
                                   : decode_twos(all->values, run, size, &at, blob + said);
            letters += at - begin;
            if (at == size) break;
        }
        value = all->values[run[at]];
        if (is_0x(all, run + at, size - at)) {
            at += 2;
            continue;
        }
        at++;
        if (value >= PSB_SEPARATOR) continue;
        letters++;
        bits = bits << all->bits | value;
        held += all->bits;
        if (held < 8) continue;
        held -= 8;
        blob[said++] = (uint8_t)(bits >> held);
    }
    if (held) blob[said] = (uint8_t)(bits << (8 - held));
    return letters;
}

/* What it says from one letter later on. */
static void shift(uint8_t *blob, uint64_t size, unsigned bits) {
    uint64_t at = 0;
    for (; size - at > 8; at += 8) {
        uint64_t eight = htobe64(be64toh(psb_eight(blob + at)) << bits | blob[at + 8] >> (8 - bits));
        memcpy(blob + at, &eight, sizeof eight);
    }
    for (; at + 1 < size; at++) blob[at] = (uint8_t)(blob[at] << bits | blob[at + 1] >> (8 - bits));
    if (at < size) blob[at] = (uint8_t)(blob[at] << bits);
}

/* Puts a text behind the others: a break and the end of a line are between two of them. */
static uint64_t put(struct psb_runs *runs, const uint8_t *blob, uint64_t size, int skips_nul) {
    uint8_t *out = runs->texts + runs->said;
    uint64_t said = psb_stretches(blob, size, skips_nul, out);
    if (!said) return 0;
    out[said] = PSB_BREAK, out[said + 1] = '\n';
    return said + 2;
}

/* The texts of a small blob. Returns 1 when it is to be looked at by other means. */
static int look(struct psb_runs *runs, const uint8_t *blob, uint64_t size) {
    if (psb_is_beyond_ascii(blob, size)) {
        if (psb_find_compressed(blob, size, 0) < size || psb_is_utf8(blob, size)) return 1;
        if (!psb_may_have_stretch(blob, size)) return 0;
    }
    runs->said += put(runs, blob, size, 0);
    if (size && memchr(blob, 0, size)) runs->said += put(runs, blob, size, 1);
    return 0;
}

/* Whether the texts of one more blob, in both views of it, may not be said together with those that wait. */
static int is_full(const struct psb_runs *runs, uint64_t most) {
    return runs->said && (most > PSB_SMALL_BLOB || runs->said + 2 * (most + 2) > PSB_MOST_OF_TEXTS);
}

/* Bytes that it says from the letter `from` on. */
static uint64_t said_from(const struct psb_alphabet *all, const struct psb_runs *runs, uint64_t from) {
    return from < runs->letters ? (runs->letters - from) * all->bits / 8 : 0;
}

/* Makes its first blob, if it has as many letters as it must have. Returns 0 when there is no room for one. */
static int begin_run(const struct psb_alphabet *all, const uint8_t *text, struct psb_runs *runs, uint8_t *blob,
                     uint64_t room) {
    const uint8_t *run = text + runs->begin;
    uint64_t size = runs->end - runs->begin, letters = size;
    if (letters * all->bits / 8 + 1 > room) letters = count_letters(all, run, size);
    if (letters < all->least) return 1;
    if (letters * all->bits / 8 + 1 > room) {
        runs->need = letters * all->bits / 8 + 1;
        return 0;
    }
    letters = decode(all, run, size, blob);
    runs->letters = letters < all->least ? 0 : letters;
    runs->from = runs->shifts = 0;
    return 1;
}

/* What the run says from one letter after the other; each blob is made of the one before. Returns 1 when the turn is
 * over. */
static int decode_run(const struct psb_alphabet *all, struct psb_runs *runs, uint8_t *blob) {
    uint64_t most = said_from(all, runs, 0);
    for (; runs->from < all->phases; runs->from++) {
        uint64_t said = said_from(all, runs, runs->from);
        if (is_full(runs, most)) return 1;
        if (runs->shifts < runs->from) {
            shift(blob, said_from(all, runs, runs->shifts) + 1, all->bits);
            runs->shifts++;
        }
        if (most > PSB_SMALL_BLOB || look(runs, blob, said)) {
            runs->from++;
            runs->blob = said;
            return 1;
        }
    }
    runs->letters = 0;
    return 0;
}

int psb_decode_runs(const uint8_t *text, uint64_t size, const struct psb_alphabet *all, struct psb_runs *runs,
                    uint8_t *blob, uint64_t room) {
    runs->need = runs->blob = runs->said = 0;
    while (runs->end <= size) {
        if (runs->letters && decode_run(all, runs, blob)) return 1;
        if (!runs->waits && !next_run(all, text, size, runs)) break;
        runs->waits = !begin_run(all, text, runs, blob, room);
        if (runs->waits) return 1;
    }
    return runs->said > 0;
}
