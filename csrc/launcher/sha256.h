/* SHA-256 (FIPS 180-4) and HMAC with it (RFC 2104): the chain of the audit trail, and the signature of kept plans. */
#ifndef PSB_LAUNCHER_SHA256_H
#define PSB_LAUNCHER_SHA256_H

#include <stddef.h>
#include <stdint.h>

#define SHA256_SIZE 32

void sha256_of(const void *bytes, size_t size, uint8_t *digest);

void hmac_sha256(const uint8_t *key, size_t key_size, const void *bytes, size_t size, uint8_t *digest);

/* `text` has room for two letters for each byte, and a NUL. */
void to_hex(const uint8_t *bytes, size_t size, char *text);

#endif
