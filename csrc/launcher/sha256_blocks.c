/* SHA-256 by the SHA extensions of x86 (Intel SDM 2B, SHA256RNDS2, SHA256MSG1, SHA256MSG2): a kept plan is some 40 KB,
 * whose signature takes a sixth of the time that it takes by ordinary instructions. */
#include "sha256_blocks.h"

#ifdef __x86_64__
#include <cpuid.h>
#include <immintrin.h>
#include <limits.h> /* and with it, which C library this is */

#define WITH_SHA __attribute__((target("sha,ssse3,sse4.1")))

#if defined(__GLIBC__) && __has_include(<sys/platform/x86.h>)
#include <sys/platform/x86.h>

int has_sha256_instructions(void) {
    return CPU_FEATURE_ACTIVE(SHA) && CPU_FEATURE_ACTIVE(SSSE3) && CPU_FEATURE_ACTIVE(SSE4_1);
}
#else
int has_sha256_instructions(void) {
    const unsigned needed = bit_SSSE3 | bit_SSE4_1;
    unsigned eax, ebx, ecx, edx;
    __cpuid(0, eax, ebx, ecx, edx);
    if (eax < 7) return 0;
    __cpuid_count(7, 0, eax, ebx, ecx, edx);
    if (!(ebx & bit_SHA)) return 0;
    __cpuid(1, eax, ebx, ecx, edx);
    return (ecx & needed) == needed;
}
#endif

/* The state as the instructions want it: words A, B, E, F in one register, C, D, G, H in the other, highest first. */
struct halves {
    __m128i abef, cdgh;
};

WITH_SHA static struct halves to_halves(const uint32_t *state) {
    const __m128i cdab = _mm_shuffle_epi32(_mm_loadu_si128((const __m128i *)state), 0xb1);
    const __m128i efgh = _mm_shuffle_epi32(_mm_loadu_si128((const __m128i *)(state + 4)), 0x1b);
    return (struct halves){_mm_alignr_epi8(cdab, efgh, 8), _mm_blend_epi16(efgh, cdab, 0xf0)};
}

WITH_SHA static void from_halves(struct halves halves, uint32_t *state) {
    const __m128i feba = _mm_shuffle_epi32(halves.abef, 0x1b), dchg = _mm_shuffle_epi32(halves.cdgh, 0xb1);
    _mm_storeu_si128((__m128i *)state, _mm_blend_epi16(feba, dchg, 0xf0));
    _mm_storeu_si128((__m128i *)(state + 4), _mm_alignr_epi8(dchg, feba, 8));
}

WITH_SHA static void four_rounds(struct halves *now, __m128i words, const uint32_t *constants) {
    const __m128i sums = _mm_add_epi32(words, _mm_loadu_si128((const __m128i *)constants));
    now->cdgh = _mm_sha256rnds2_epu32(now->cdgh, now->abef, sums);
    now->abef = _mm_sha256rnds2_epu32(now->abef, now->cdgh, _mm_shuffle_epi32(sums, 0x0e));
}

/* The four words that follow sixteen. */
WITH_SHA static __m128i next_words(__m128i first, __m128i second, __m128i third, __m128i fourth) {
    const __m128i sums = _mm_add_epi32(_mm_sha256msg1_epu32(first, second), _mm_alignr_epi8(fourth, third, 4));
    return _mm_sha256msg2_epu32(sums, fourth);
}

WITH_SHA static struct halves mix_block(struct halves before, const uint8_t *block) {
    const __m128i swapped = _mm_set_epi64x(0x0c0d0e0f08090a0b, 0x0405060700010203); /* big-endian words */
    struct halves now = before;
    __m128i words[4];
    int i;
    for (i = 0; i < 4; i++) words[i] = _mm_shuffle_epi8(_mm_loadu_si128((const __m128i *)(block + 16 * i)), swapped);
#pragma GCC unroll 16
    for (i = 0; i < 16; i++) {
        four_rounds(&now, words[i & 3], sha256_constants + 4 * i);
        words[i & 3] = next_words(words[i & 3], words[(i + 1) & 3], words[(i + 2) & 3], words[(i + 3) & 3]);
    }
    return (struct halves){_mm_add_epi32(before.abef, now.abef), _mm_add_epi32(before.cdgh, now.cdgh)};
}

WITH_SHA void take_blocks_by_instructions(uint32_t state[8], const uint8_t *blocks, size_t count) {
    struct halves now = to_halves(state);
    for (; count; count--, blocks += 64) now = mix_block(now, blocks);
    from_halves(now, state);
}

#else

int has_sha256_instructions(void) {
    return 0;
}

void take_blocks_by_instructions(uint32_t state[8], const uint8_t *blocks, size_t count) {
    (void)state, (void)blocks, (void)count;
}

#endif
