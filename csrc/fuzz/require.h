/* What the harnesses share: a claim that stops the fuzzer when it does not hold, and input in memory of its exact size,
 * so that a read beyond it is seen. */
#ifndef PSB_FUZZ_REQUIRE_H
#define PSB_FUZZ_REQUIRE_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define REQUIRE(claim)                                                                                                 \
    do {                                                                                                               \
        if (!(claim)) __builtin_trap();                                                                                \
    } while (0)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static inline void *exact_copy(const void *from, size_t size) {
    void *copy = malloc(size ? size : 1);
    REQUIRE(copy);
    if (size) memcpy(copy, from, size);
    return copy;
}

#endif
