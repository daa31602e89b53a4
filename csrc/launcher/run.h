/* One command in a cage of its own, from a kept plan. */
#ifndef PSB_LAUNCHER_RUN_H
#define PSB_LAUNCHER_RUN_H

#include "host.h"
#include "attend.h"
#include "cgroup.h"
#include "failure.h"
#include "kept.h"
#include "key.h"
#include "permit.h"
#include "services.h"
#include "streams.h"
#include "trail.h"

struct run {
    const struct kept *kept;
    char *const *argv;
    char *const *flags; /* before the command: some variables have their value from there */
    size_t n_flags;
    struct psb_opened cage;
    struct cgroup cgroup; /* what the cage is born in */
    int user;             /* whom it is outside, where root has started it as another; else 0 */
    int report;
    double started; /* seconds since the epoch */
    struct trail trail;
    struct permit permit;
    struct streams streams;
    struct services services;
    struct attendance attendance;
    enum failed_how how;
    int no_route; /* it failed, and had looked for a host that it has no way to */
    int told;     /* Python has said why the command failed, or what went wrong */
    int records;  /* the directory of the records of live cages, -1 while there is none of ours */
};

/* The exit code, or -1: nothing was started, and nothing is left. */
int run_kept(struct run *run);

void say(const char *what, const char *text);

#endif
