/* The answers to the kernel: how a call that a cage's filter has handed over goes on. The caller holds the guest's
 * mutex, or the guest is its own: the copy that psb_answer_exec makes. Each returns 0, or -errno: -ENOENT when the call
 * waits no more. */
#ifndef PSB_ANSWERS_H
#define PSB_ANSWERS_H

#include <stddef.h>
#include <stdint.h>

#include "behalf.h"
#include "notifier.h"

/* The kernel goes on with the call. */
int pass(const struct guest *guest, uint64_t id);
/* The call returns the value, or fails with it: -errno. */
int give(const struct guest *guest, uint64_t id, int64_t value);
/* It returns the number of a copy of our descriptor; `flags`: O_CLOEXEC or 0. */
int inject(const struct guest *guest, uint64_t id, int fd, uint32_t flags);
/* A deed's outcome, with the socket that it made. */
void finish(const struct guest *guest, uint64_t id, struct deed *deed);

/* answers_exec.c: an execve goes on if it is still what was expected, and becomes the image (psb_answer_exec). This
 * blocks: the caller must not hold the mutex, and the guest is its own. */
int pass_exec(const struct guest *guest, uint64_t id, const struct deed *deed, const char *expected, size_t size,
              const struct psb_image *image);

/* Whether the caller is still there: what was read of it before is then of the call, and not of whoever has its number
 * now. */
int still_waits(const struct guest *guest, uint64_t id);

#endif
