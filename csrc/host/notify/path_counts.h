/* How often one cage missed which path: each kind of look once for each session, by a digest, with a count. The caller
 * holds the cage's mutex. */
#ifndef PSB_PATH_COUNTS_H
#define PSB_PATH_COUNTS_H

#include <stdint.h>

#include "notify.h"

struct path_counts {
    struct psb_path_count *all; /* NULL until the first; `key` 0: no entry */
    uint64_t seed;
    uint32_t used;
    uint64_t lost; /* looks for which there was no room */
};

/* The key of a look, and in *first whether it is the first of its kind; 0: there is no room for another kind. */
uint64_t count_path(struct path_counts *counts, const struct psb_look *look, int session, int *first);
uint32_t copy_path_counts(const struct path_counts *counts, struct psb_path_count *to, uint32_t room);
void forget_paths(struct path_counts *counts);

#endif
