/* Whether paths that were looked at are still what they were (read by cffi, preprocessor lines stripped). */
#ifndef PSB_HOST_SEEN_H
#define PSB_HOST_SEEN_H

#include <stddef.h>
#include <stdint.h>

/* One path and the inode it led to when it was looked at; ino 0: it led to none. */
struct psb_seen {
    const char *path;
    uint64_t dev; /* as st_dev */
    uint64_t ino;
    uint64_t
        bare; /* of a directory: its time of change (ns) when all `within` it were last found absent; 0 or 1: never */
    uint32_t within; /* 1: a name of the directory that is the nearest row before with 0 here, reached by no symlink */
    uint32_t direct; /* 1: reached by no symlink, so that one in its place is another thing, wherever it leads */
};

/* 1 when every path still leads there, 0 when one does not. What was absent in a directory that has not changed since
 * is absent: such rows cost nothing. */
int psb_still_there(struct psb_seen *seen, size_t count);

/* A name that was not there: `name` below the directory `tree`, which was reached without any symlink. */
struct psb_absent {
    const char *tree;
    const char *name;
    uint64_t bare; /* the tree's time of change (ns) when it lacked the first component of `name`; 0 or 1: never */
};

/* There is something by now at each of them or not, 1 or 0 in `there`; returns how many. A link in the place or on the
 * way to it is something, and so is what cannot be examined, where it is no older than `since` (CLOCK_REALTIME, ns);
 * older links are followed. Those of one tree stand together. */
size_t psb_appeared(struct psb_absent *absent, size_t count, uint64_t since, uint8_t *there);

#endif
