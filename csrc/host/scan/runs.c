/* A run is found by its alphabet, and may begin in the middle: before it stands whatever its alphabet allows, too. So
 * it is decoded from each letter where it may begin, into memory that its caller gives. Most of what comes out is noise
 * and is dropped here; a text is kept; what may be compressed, or in other letters than ASCII, is the caller's. */
#include "runs.h"

#include <string.h>

#include "stretches.h"

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

/* As many of the letters as stand four in a row, of six bits each: most of base64. */
static uint64_t decode_fours(const struct psb_alphabet *all, const uint8_t *run, uint64_t size, uint64_t *at,
                             uint8_t *blob) {
    uint64_t said = 0;
    while (size - *at >= 4) {
        const uint8_t *four = run + *at;
        unsigned a = all->values[four[0]], b = all->values[four[1]], c = all->values[four[2]], d = all->values[four[3]];
        unsigned bits = a << 18 | b << 12 | c << 6 | d;
        if ((a | b | c | d) >= PSB_SEPARATOR) break;
        blob[said++] = (uint8_t)(bits >> 16);
        blob[said++] = (uint8_t)(bits >> 8);
        blob[said++] = (uint8_t)bits;
        *at += 4;
    }
    return said;
}

/* From a letter on, as many whole bytes as its letters make: `blob` has room for them. */
static uint64_t decode(const struct psb_alphabet *all, const uint8_t *run, uint64_t size, uint32_t from,
                       uint8_t *blob) {
    uint64_t at = 0, said = 0;
    uint32_t bits = 0, held = 0;
    while (at < size) {
        uint8_t value;
        if (!from && !held && all->bits == 6) {
            said += decode_fours(all, run, size, &at, blob + said);
            if (at == size) break;
        }
        value = all->values[run[at]];
        if (is_0x(all, run + at, size - at)) {
            at += 2;
            continue;
        }
        at++;
        if (value >= PSB_SEPARATOR) continue;
        if (from) {
            from--;
            continue;
        }
        bits = bits << all->bits | value;
        held += all->bits;
        if (held < 8) continue;
        held -= 8;
        blob[said++] = (uint8_t)(bits >> held);
    }
    return said;
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

/* Decodes the run from one letter after the other. Returns 1 when the turn is over. */
static int decode_run(const struct psb_alphabet *all, const uint8_t *text, struct psb_runs *runs, uint8_t *blob,
                      uint64_t room) {
    uint64_t size = runs->end - runs->begin, most = runs->letters * all->bits / 8;
    if (most > room) {
        runs->need = most;
        return 1;
    }
    for (; runs->from < all->phases; runs->from++) {
        uint64_t said;
        if (is_full(runs, most)) return 1;
        said = decode(all, text + runs->begin, size, runs->from, blob);
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
        if (runs->letters && decode_run(all, text, runs, blob, room)) return 1;
        if (!next_run(all, text, size, runs)) break;
        runs->letters = count_letters(all, text + runs->begin, runs->end - runs->begin);
        runs->from = 0;
        if (runs->letters < all->least) runs->letters = 0;
    }
    return runs->said > 0;
}
