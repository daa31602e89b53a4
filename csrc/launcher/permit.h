/* What must be so before a command is ordered: its plan holds, and its start is on record. */
#ifndef PSB_LAUNCHER_PERMIT_H
#define PSB_LAUNCHER_PERMIT_H

#include <pthread.h>

#include "trail.h"

struct permit {
    const struct kept *kept;
    char *const *argv;
    struct trail *trail;
    pthread_t thread;
    int has_thread; /* until it was waited for */
    int stage;      /* of both threads: permit.c */
    int is_given;
};

/* Begins to find out; whoever reads the trail or what the plan depends on waits for it first. */
void begin_permit(struct permit *permit);
/* 0 when the command may be ordered. Waits at the first call, until it is known or a signal says that we are to end. */
int await_permit(struct permit *permit);
/* Whether it is not waited for any more: the trail is its thread's, which may be in a look for ever. */
int is_given_up(const struct permit *permit);

#endif
