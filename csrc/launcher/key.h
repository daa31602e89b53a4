/* What is the same whenever a kept plan is to be found. pysandbox/launch/kept.py writes the same bytes. */
#ifndef PSB_LAUNCHER_KEY_H
#define PSB_LAUNCHER_KEY_H

#include "sha256.h"
#include "text.h"

/* `run`'s flags and its command. */
struct request {
    char **flags;
    int n_flags;
    char **argv; /* ended by NULL, never empty */
};

/* Takes apart what follows the word "run"; -1 where only a parser could tell where the command begins. */
int split(char **arguments, struct request *request);

/* `self`: the path of this program, which names the installation. The key tells nothing of the flags to whoever does
 * not have the secret: a value that was typed is on no disk. -1 where the key cannot be told. */
int make_key(uint8_t key[SHA256_SIZE], const char *self, const struct request *request, const uint8_t *secret);

#endif
