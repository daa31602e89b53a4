/* Every plan that Python signs and every record that Python verifies holds it against hashlib's
 * (tests/e2e/test_launcher.py). */
#include "sha256.h"

#include <string.h>

#include "sha256_blocks.h"

#define SHA256_BLOCK 64

struct sha256 {
    uint32_t state[8];
    uint64_t size;
    uint8_t block[SHA256_BLOCK];
};

const uint32_t sha256_constants[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

static uint32_t turn(uint32_t x, int by) {
    return x >> by | x << (32 - by);
}

static void read_block(const uint8_t *block, uint32_t *w) {
    int i;
    for (i = 0; i < 16; i++)
        w[i] = (uint32_t)block[4 * i] << 24 | (uint32_t)block[4 * i + 1] << 16 | (uint32_t)block[4 * i + 2] << 8 |
               block[4 * i + 3];
}

/* The next sixteen words, in the place of the last. */
static void expand(uint32_t *w) {
    int i;
    for (i = 0; i < 16; i++) {
        const uint32_t x = w[(i + 1) & 15], y = w[(i + 14) & 15];
        w[i] += (turn(x, 7) ^ turn(x, 18) ^ x >> 3) + w[(i + 9) & 15] + (turn(y, 17) ^ turn(y, 19) ^ y >> 10);
    }
}

/* One round; the names of the eight words move on instead of the words. */
#define ROUND(a, b, c, d, e, f, g, h, i)                                                                               \
    do {                                                                                                               \
        const uint32_t one = h + (turn(e, 6) ^ turn(e, 11) ^ turn(e, 25)) + ((e & f) ^ (~e & g)) + k[i] + w[i];        \
        d += one;                                                                                                      \
        h = one + (turn(a, 2) ^ turn(a, 13) ^ turn(a, 22)) + ((a & b) ^ (a & c) ^ (b & c));                            \
    } while (0)

static void mix(uint32_t *s, const uint32_t *w, const uint32_t *k) {
    uint32_t a = s[0], b = s[1], c = s[2], d = s[3], e = s[4], f = s[5], g = s[6], h = s[7];
    int i;
    for (i = 0; i < 16; i += 8) {
        ROUND(a, b, c, d, e, f, g, h, i);
        ROUND(h, a, b, c, d, e, f, g, i + 1);
        ROUND(g, h, a, b, c, d, e, f, i + 2);
        ROUND(f, g, h, a, b, c, d, e, i + 3);
        ROUND(e, f, g, h, a, b, c, d, i + 4);
        ROUND(d, e, f, g, h, a, b, c, i + 5);
        ROUND(c, d, e, f, g, h, a, b, i + 6);
        ROUND(b, c, d, e, f, g, h, a, i + 7);
    }
    s[0] = a, s[1] = b, s[2] = c, s[3] = d, s[4] = e, s[5] = f, s[6] = g, s[7] = h;
}

static void take_block(uint32_t *state, const uint8_t *block) {
    uint32_t w[16], s[8];
    int i;
    read_block(block, w);
    memcpy(s, state, sizeof s);
    for (i = 0; i < 64; i += 16) {
        if (i) expand(w);
        mix(s, w, sha256_constants + i);
    }
    for (i = 0; i < 8; i++) state[i] += s[i];
}

static void take_blocks(uint32_t *state, const uint8_t *blocks, size_t count) {
    if (has_sha256_instructions()) {
        take_blocks_by_instructions(state, blocks, count);
        return;
    }
    for (; count; count--, blocks += SHA256_BLOCK) take_block(state, blocks);
}

static void sha256_begin(struct sha256 *hash) {
    static const uint32_t start[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                      0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
    memcpy(hash->state, start, sizeof start);
    memset(hash->block, 0, sizeof hash->block);
    hash->size = 0;
}

static void sha256_add(struct sha256 *hash, const void *bytes, size_t size) {
    const uint8_t *at = bytes;
    while (size) {
        const size_t held = hash->size % SHA256_BLOCK, room = SHA256_BLOCK - held;
        const size_t whole = held ? 0 : size / SHA256_BLOCK * SHA256_BLOCK;
        const size_t some = whole ? whole : size < room ? size : room;
        if (whole)
            take_blocks(hash->state, at, whole / SHA256_BLOCK);
        else
            memcpy(hash->block + held, at, some);
        if (!whole && some == room) take_blocks(hash->state, hash->block, 1);
        hash->size += some;
        at += some;
        size -= some;
    }
}

static void sha256_end(struct sha256 *hash, uint8_t *digest) {
    const uint64_t bits = hash->size * 8;
    const uint8_t first = 0x80, zero = 0;
    uint8_t length[8];
    int i;
    sha256_add(hash, &first, 1);
    while (hash->size % SHA256_BLOCK != SHA256_BLOCK - sizeof length) sha256_add(hash, &zero, 1);
    for (i = 0; i < 8; i++) length[i] = (uint8_t)(bits >> (56 - 8 * i));
    sha256_add(hash, length, sizeof length);
    for (i = 0; i < SHA256_SIZE; i++) digest[i] = (uint8_t)(hash->state[i / 4] >> (24 - 8 * (i % 4)));
}

void sha256_of(const void *bytes, size_t size, uint8_t *digest) {
    struct sha256 hash;
    sha256_begin(&hash);
    sha256_add(&hash, bytes, size);
    sha256_end(&hash, digest);
}

static void begin_padded(struct sha256 *hash, const uint8_t *key, size_t key_size, uint8_t with) {
    uint8_t block[SHA256_BLOCK] = {0};
    size_t i;
    for (i = 0; i < sizeof block; i++) block[i] = (uint8_t)((i < key_size ? key[i] : 0) ^ with);
    sha256_begin(hash);
    sha256_add(hash, block, sizeof block);
}

/* The key is no longer than a block. */
void hmac_sha256(const uint8_t *key, size_t key_size, const void *bytes, size_t size, uint8_t *digest) {
    struct sha256 hash;
    begin_padded(&hash, key, key_size, 0x36);
    sha256_add(&hash, bytes, size);
    sha256_end(&hash, digest);
    begin_padded(&hash, key, key_size, 0x5c);
    sha256_add(&hash, digest, SHA256_SIZE);
    sha256_end(&hash, digest);
}

void to_hex(const uint8_t *bytes, size_t size, char *text) {
    static const char digits[] = "0123456789abcdef";
    size_t i;
    for (i = 0; i < size; i++) {
        text[2 * i] = digits[bytes[i] >> 4];
        text[2 * i + 1] = digits[bytes[i] & 15];
    }
    text[2 * size] = 0;
}
