/* What the processes of a cage use, at the most and at the least: the cheapest of the looks of pysandbox/live/tree.py
 * and a closer one, from the same files of the cage's own /proc. What lies between the two is for Python to judge. */
#ifndef PSB_LAUNCHER_MEMORY_H
#define PSB_LAUNCHER_MEMORY_H

#include <stdint.h>

#include "kept.h"

struct memory {
    uint64_t limit;
    int proc;                                  /* the cage's /proc; -1: there is nothing to be looked at */
    int n_files, files[PSB_KEPT_MOST_WATCHED]; /* its memory file systems */
    int own_net;
};

/* Before the cage has its first order: what is opened is what the plan made. 0, or -1. */
int open_memory(struct memory *memory, const struct kept *kept, int init_pid);
void close_memory(struct memory *memory);

#define UNKNOWN UINT64_MAX

/* Bytes in use, never less than there are; UNKNOWN where that cannot be told. */
uint64_t add_up_memory(const struct memory *memory);
/* Bytes in use, never more than there are; UNKNOWN likewise. */
uint64_t weigh_memory(const struct memory *memory);

#endif
