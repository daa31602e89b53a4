/* How a step fails: once, where it happened, with step, errno and path. */
#ifndef PSB_ERROR_H
#define PSB_ERROR_H

#include "abi.h"
#include "steps.h"
#include "sys.h"

/* Fills *error and returns -1, so that a failing step is `return fail(...)`. `result` is a kernel return value. */
static inline PSB_UNUSED int fail(struct psb_error *error, enum psb_step step, long result, const char *path) {
    error->step = (int32_t)step;
    error->number = (int32_t)-result;
    text_copy(error->path, sizeof error->path, path ? path : "");
    return -1;
}

#endif
