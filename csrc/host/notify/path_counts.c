/* A table with room for MOST kinds of looks, so that a flood of them costs the host neither memory nor
 * Python. The seed keeps a cage from choosing two paths with one key. */
#include "path_counts.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#define PLACES 4096U
#define MOST 3072U

static uint64_t mixed(uint64_t sum, const void *bytes, size_t size) {
    const uint8_t *at = bytes;
    while (size--) sum = (sum ^ *at++) * 0x100000001b3ULL;
    return sum;
}

static uint64_t key_of(uint64_t seed, const struct psb_look *look, int session) {
    uint64_t sum = mixed(seed, look->path, strlen(look->path));
    sum = mixed(sum, &look->wanted, sizeof look->wanted);
    sum = mixed(sum, &look->number, sizeof look->number);
    sum = mixed(sum, &session, sizeof session);
    return sum ? sum : 1;
}

uint64_t count_path(struct path_counts *counts, const struct psb_look *look, int session, int *first) {
    uint64_t key;
    uint32_t at;
    *first = 0;
    if (!counts->all) {
        counts->all = calloc(PLACES, sizeof *counts->all);
        if (!counts->all || getrandom(&counts->seed, sizeof counts->seed, 0) < 0) counts->seed ^= (uintptr_t)counts;
    }
    key = key_of(counts->seed, look, session);
    for (at = key % PLACES; counts->all && counts->all[at].key && counts->all[at].key != key;) at = (at + 1) % PLACES;
    if (!counts->all || (!counts->all[at].key && counts->used >= MOST)) {
        counts->lost++;
        return 0;
    }
    *first = !counts->all[at].key;
    counts->used += (uint32_t)*first;
    counts->all[at].key = key;
    counts->all[at].count++;
    return key;
}

uint32_t copy_path_counts(const struct path_counts *counts, struct psb_path_count *to, uint32_t room) {
    uint32_t at, count = 0;
    for (at = 0; counts->all && at < PLACES && count < room; at++)
        if (counts->all[at].key) to[count++] = counts->all[at];
    return count;
}

void forget_paths(struct path_counts *counts) {
    free(counts->all);
    counts->all = NULL;
}
