/* The kept plan of a key, from the user's cache. */
#ifndef PSB_LAUNCHER_RECALL_H
#define PSB_LAUNCHER_RECALL_H

#include "kept.h"
#include "sha256.h"

/* 0, or -1 for nothing that can be believed. */
int recall(const uint8_t key[SHA256_SIZE], const uint8_t *secret, struct kept *kept);

#endif
