/* The passes of leak detection (csrc/host/scan): none reads or writes beyond what it was given, each writes as much as
 * it says, and comes to its end. Input: a text. */
#include "../host/scan/escapes.h"
#include "../host/scan/fields.h"
#include "../host/scan/folded.h"
#include "../host/scan/literals.h"
#include "../host/scan/quoted.h"
#include "../host/scan/runs.h"
#include "../host/scan/stretches.h"
#include "require.h"

static void read_stretches(const uint8_t *text, size_t size) {
    int skips_nul;
    for (skips_nul = 0; skips_nul < 2; skips_nul++) {
        uint64_t count = psb_stretches(text, size, skips_nul, NULL);
        uint8_t *out = exact_copy(text, count), *same = exact_copy(text, size);
        REQUIRE(count <= size && psb_stretches(text, size, skips_nul, out) == count);
        REQUIRE(psb_stretches(same, size, skips_nul, same) == count && !memcmp(same, out, count));
        REQUIRE(!count || psb_may_have_stretch(text, size) || !psb_is_beyond_ascii(text, size));
        free(out), free(same);
    }
}

static void read_folded(const uint8_t *text, size_t size) {
    struct psb_alike alike;
    uint8_t *out = exact_copy(text, size);
    memset(&alike, 'a', sizeof alike);
    REQUIRE(psb_fold(text, size, &alike, out) <= size);
    free(out);
}

static void read_escapes(const uint8_t *text, size_t size) {
    struct psb_unescaped result, again;
    uint64_t room = psb_escaped_size(text, size);
    uint8_t *out = malloc(room ? room : 1), *rest;
    REQUIRE(out);
    psb_unescape(text, size, out, &result);
    REQUIRE(result.said <= room && (result.said < room || !room));
    room = psb_escaped_size(out, result.said);
    rest = malloc(room ? room : 1);
    REQUIRE(rest);
    psb_unescape(out, result.said, rest, &again);
    REQUIRE(again.said <= room);
    free(out), free(rest);
}

static void read_places(const uint8_t *text, size_t size) {
    uint64_t at;
    for (at = 0; (at = psb_find_compressed(text, size, at)) < size; at++) REQUIRE(memchr("\x78\x1f\x28", text[at], 3));
    for (at = 0; (at = psb_find_quoted(text, size, at)) < size; at++) REQUIRE(text[at] == '=');
    psb_is_form(text, size);
}

static void read_quoted(const uint8_t *text, size_t size) {
    uint8_t *out = malloc(size ? size : 1);
    REQUIRE(out);
    REQUIRE(psb_unquote(text, size, out) <= size);
    free(out);
}

static void read_fields(const uint8_t *text, size_t size) {
    REQUIRE(!size || psb_last_field(text, size) < size);
}

static void read_runs(const uint8_t *text, size_t size, uint32_t bits) {
    struct psb_alphabet all = {.least = 16, .bits = bits, .phases = 8, .skips_0x = bits == 4};
    struct psb_runs runs = {0};
    uint64_t room = 1, turns = 0;
    uint8_t *blob = malloc(room);
    unsigned c;
    for (c = 0; c < 256; c++) all.values[c] = c < 1u << bits ? (uint8_t)c : c < 0x80 ? PSB_SEPARATOR : PSB_NO_LETTER;
    for (c = 'a'; c < 'a' + (1u << bits) && c < 0x80; c++) all.values[c] = (uint8_t)(c - 'a');
    all.values['0'] = 0;
    while (psb_decode_runs(text, size, &all, &runs, blob, room)) {
        REQUIRE(runs.said <= sizeof runs.texts && runs.blob <= room && runs.end <= size && runs.from <= all.phases);
        REQUIRE(runs.said || runs.blob || runs.need > room);
        REQUIRE(turns++ <= 10 * size + 10);
        if (runs.need <= room) continue;
        free(blob);
        blob = malloc(room = runs.need);
    }
    REQUIRE(runs.end == size);
    free(blob);
}

static void read_literals(const uint8_t *text, size_t size) {
    static const char *const literals[] = {"aaa", "aaab", "abc", "ghp_"};
    static struct psb_literals all;
    static struct psb_nominations found;
    unsigned i, c;
    memset(&all, 0, sizeof all);
    memset(all.either, size & 1 ? 0xff : 0, sizeof all.either);
    for (i = 0; i < 4; i++) {
        uint32_t hash = psb_hash_of_literal((const uint8_t *)literals[i]);
        all.begins[hash >> 3] |= (uint8_t)(1 << (hash & 7));
        all.either[hash >> 3] |= (uint8_t)(1 << (hash & 7));
        all.size[i] = (uint8_t)strlen(literals[i]);
        memcpy(all.text[i], literals[i], all.size[i]);
    }
    for (c = 0; c <= 256; c++) all.first[c] = c <= 'a' ? 0 : c <= 'g' ? 3 : 4;
    for (found.next = 0; found.next < size;) {
        psb_find_literals(text, size, &all, &found);
        REQUIRE(found.count <= PSB_MOST_NOMINATIONS && found.next <= size);
        for (i = 0; i < found.count; i++)
            REQUIRE(!memcmp(text + found.at[i], literals[found.which[i]], all.size[found.which[i]]));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    uint8_t *text = exact_copy(data, size);
    uint32_t bits;
    read_stretches(text, size);
    read_folded(text, size);
    read_escapes(text, size);
    read_places(text, size);
    read_quoted(text, size);
    read_fields(text, size);
    for (bits = 4; bits <= 6; bits++) read_runs(text, size, bits);
    read_literals(text, size);
    free(text);
    return 0;
}
