/* The secret that plans on disk are signed with (read by cffi, preprocessor lines stripped). */
#ifndef PSB_HOST_SECRET_H
#define PSB_HOST_SECRET_H

#include <stdint.h>

enum psb_secret {
    PSB_SECRET_SIZE = 32
};

/* Fills `secret` with this user's, made at its first use in a boot. 0, or -errno where there are no keys. */
int psb_secret(uint8_t *secret);

#endif
