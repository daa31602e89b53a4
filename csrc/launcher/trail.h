/* What one run leaves in the audit trail: the same records as pysandbox/process.py leaves. */
#ifndef PSB_LAUNCHER_TRAIL_H
#define PSB_LAUNCHER_TRAIL_H

#include <time.h>

#include "kept.h"
#include "stream.h"

#define CAGE_ID 26

enum blame {
    BLAME_NOBODY,
    BLAME_TIMEOUT,
    BLAME_CANCELLED
};

struct trail {
    const struct kept *kept;
    struct stream stream;
    int is_open, has_begun;
    char id[CAGE_ID + 1];
    struct timespec began; /* CLOCK_MONOTONIC */
    uint64_t since;        /* and by CLOCK_REALTIME, ns: what files' times are compared with */
    enum blame blame;      /* why the command is being ended */
};

/* 0, or -1 where only Python can go on. */
int open_trail(struct trail *trail, const struct kept *kept);
void close_trail(struct trail *trail);

/* The record of the start, on the disk when this returns 0; or -errno. Nothing may be ordered before. */
int record_start(struct trail *trail, char *const *argv);

/* The records of the end; `final` NULL: cage-init died with the command. `planted`: which of PSB_KEPT_ABSENT are there.
 * 0, or -errno. */
int record_end(struct trail *trail, const struct psb_report *final, const uint8_t *planted);

/* The record of a command that never ran, where it was told of. 0, or -errno. */
int record_failure(struct trail *trail, const struct psb_error *error);

/* The sentence about what was planted; `quoted`: for a JSON text. */
void add_planted_sentence(struct text *to, const struct kept *kept, const uint8_t *planted, int quoted);

#endif
