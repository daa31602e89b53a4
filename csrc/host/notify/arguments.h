/* The path and the arguments of an execve, as the caller's memory has them. */
#ifndef PSB_ARGUMENTS_H
#define PSB_ARGUMENTS_H

#include <stddef.h>
#include <stdint.h>

#include "target.h"

/* Path, then each argument, each with its NUL: the size, -E2BIG when there is more than `room`, -errno. */
int64_t read_arguments(const struct target *caller, int number, const uint64_t *args, char *to, size_t room);
/* Whether they are `expected` now: 0, or -errno (-EPERM when they are not). Another thread may change them the next
 * moment; image.c checks what the kernel has read. */
int compare_arguments(const struct target *caller, int number, const uint64_t *args, const char *expected, size_t size);

#endif
