/* The blocks of SHA-256 by the processor's own instructions, where it has them. */
#ifndef PSB_LAUNCHER_SHA256_BLOCKS_H
#define PSB_LAUNCHER_SHA256_BLOCKS_H

#include <stddef.h>
#include <stdint.h>

extern const uint32_t sha256_constants[64];

/* Each CPUID is a way out to the hypervisor, in a virtual machine: where the C library has asked them all at its start,
 * it is asked what it has learned. */
int has_sha256_instructions(void);
/* Only where it has. */
void take_blocks_by_instructions(uint32_t state[8], const uint8_t *blocks, size_t count);

#endif
