/* Reading what an execve is asked to run, from memory that others may be writing; see arguments.h. */
#include "arguments.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>

#include "target.h"

#define PAGE 4096UL
#define POINTERS 512 /* read at once */

struct walk {
    const struct target *caller;
    char *to;
    size_t room, have;
};

static int read_one(struct walk *walk, uint64_t address) {
    const int64_t size = read_text(walk->caller, address, walk->to + walk->have, walk->room - walk->have);
    if (size == -ENAMETOOLONG) return -E2BIG;
    if (size < 0) return (int)size;
    walk->have += (size_t)size + 1;
    return 0;
}

/* The pointers, up to the end of their page: what lies behind the last one may not be mapped. */
static int read_pointers(struct walk *walk, uint64_t address, uint64_t *pointers, size_t *count) {
    const size_t most = (PAGE - address % PAGE) / sizeof *pointers;
    int64_t got;
    *count = most < 1 ? 1 : most > POINTERS ? POINTERS : most;
    got = read_target(walk->caller, address, pointers, *count * sizeof *pointers);
    if (got < (int64_t)sizeof *pointers) return got < 0 ? (int)got : -EFAULT;
    *count = (size_t)got / sizeof *pointers;
    return 0;
}

static int read_list(struct walk *walk, uint64_t list) {
    uint64_t pointers[POINTERS];
    while (list) {
        size_t count, i;
        int result = read_pointers(walk, list, pointers, &count);
        if (result) return result;
        for (i = 0; i < count; i++) {
            if (!pointers[i]) return 0;
            result = read_one(walk, pointers[i]);
            if (result) return result;
        }
        list += count * sizeof *pointers;
    }
    return 0;
}

static int walk_arguments(struct walk *walk, int number, const uint64_t *args) {
    const int at = number == SYS_execveat;
    const int result = read_one(walk, args[at]);
    return result ? result : read_list(walk, args[at + 1]);
}

int64_t read_arguments(const struct target *caller, int number, const uint64_t *args, char *to, size_t room) {
    struct walk walk = {.caller = caller, .to = to, .room = room};
    const int result = walk_arguments(&walk, number, args);
    return result ? result : (int64_t)walk.have;
}

int compare_arguments(const struct target *caller, int number, const uint64_t *args, const char *expected,
                      size_t size) {
    char *now = malloc(size + 1);
    int64_t have = now ? read_arguments(caller, number, args, now, size + 1) : -ENOMEM;
    int result = 0;
    if (have < 0)
        result = have == -E2BIG ? -EPERM : (int)have; /* it has grown */
    else if ((size_t)have != size || memcmp(now, expected, size))
        result = -EPERM;
    free(now);
    return result;
}
