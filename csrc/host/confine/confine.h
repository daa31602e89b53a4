/* A process that confines itself, for good (read by cffi, preprocessor lines stripped). */
#ifndef PSB_HOST_CONFINE_H
#define PSB_HOST_CONFINE_H

#include <stdint.h>

#include "../../abi.h"

enum psb_confine_flags {
    PSB_CONFINE_ALL_THREADS = 1, /* the kernel's Landlock can reach the other threads of a process (ABI 8) */
};

/* What is in force when it returns, whether or not all of it is. */
enum psb_confined {
    PSB_CONFINED_LIMITS = 1, /* at least one of them */
    PSB_CONFINED_CAPS = 2,   /* and no_new_privs */
    PSB_CONFINED_LANDLOCK = 4,
    PSB_CONFINED_SECCOMP = 8,
};

struct psb_confinement {
    struct psb_landlock landlock;
    const uint8_t *filter; /* struct sock_filter */
    uint32_t filter_count;
    uint32_t n_limits;
    const struct psb_limit *limits; /* none is raised */
    uint32_t flags;
    /* out: */
    uint32_t confined;
    struct psb_error error;
};

/* Lowers the caller's limits, takes every capability from it, has it enter the Landlock domain and install the filter:
 * all threads of the process, or none and an error. Whether it returns 0 or -1, `confined` tells what holds from now
 * on; `error` is filled where it is -1. Nothing of it can be undone. */
int psb_confine(struct psb_confinement *confinement);

#endif
