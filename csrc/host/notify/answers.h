/* The answers to the kernel: how a call that a cage's filter has handed over goes on. The caller holds the cage's
 * mutex, or the cage is its own: the copy that psb_answer_exec makes. Each returns 0, or -errno: -ENOENT when the call
 * waits no more. */
#ifndef PSB_ANSWERS_H
#define PSB_ANSWERS_H

#include <stddef.h>
#include <stdint.h>

#include "../emulate/emulate.h"
#include "notifier.h"

/* The kernel goes on with the call. */
int respond_continue(const struct notified_cage *cage, uint64_t id);
/* The call returns the value, or fails with it: -errno. */
int respond_value(const struct notified_cage *cage, uint64_t id, int64_t value);
/* It returns the number of a copy of our descriptor; `flags`: O_CLOEXEC or 0. */
int inject(const struct notified_cage *cage, uint64_t id, int fd, uint32_t flags);
/* A call's outcome, with the socket that it made. */
void respond_emulated(const struct notified_cage *cage, uint64_t id, struct emulated_call *req);

/* answers_exec.c: an execve goes on if it is still what was expected, and becomes the image (psb_answer_exec), or is
 * left for refuse_followed. These block: the caller must not hold the mutex, and the cage is its own. */
int pass_exec(const struct notified_cage *cage, uint64_t id, const struct call_facts *facts, const char *expected,
              size_t size, const struct psb_image *image, struct psb_refused_exec *refused);
void refuse_followed(const struct notified_cage *cage, const struct psb_refused_exec *refused);

/* Whether the caller still waits. If so, what was read before is its own, and not of a process that has its pid now. */
int still_waits(const struct notified_cage *cage, uint64_t id);

#endif
