/* Which of a call's arguments name files, and what the call wants of them. A table, and nothing else. */
#ifndef PSB_PATH_CALLS_H
#define PSB_PATH_CALLS_H

#include <stdint.h>

struct call_facts;

/* One path among the arguments of a call: the places of its directory (-1: the caller's own), of itself, and of the
 * flags that say whether a link is followed or what an open wants (-1: none). */
struct path_argument {
    int number;
    int directory, path, flags;
    uint32_t wanted;      /* enum psb_wanted */
    int follows;          /* a link at its end, unless flags say otherwise */
    uint64_t unfollowing; /* the bit of the flags that says so */
};

int names_paths(int number);
/* At most PSB_LOOKS rows. */
int path_arguments(int number, const struct path_argument **rows);
/* What is wanted; *lookup is O_NOFOLLOW where a link at the end is not followed, else 0. */
uint32_t wanted_by(const struct call_facts *facts, const struct path_argument *row, uint64_t *lookup);

#endif
