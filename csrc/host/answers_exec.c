/* The answer that takes its time: an execve goes on under a tracer, which looks at what the kernel has read. */
#include <errno.h>

#include "answers.h"
#include "arguments.h"
#include "image.h"

/* 0 when the kernel goes on with it. */
static int pass_if_same(const struct guest *guest, uint64_t id, const struct deed *deed, const char *expected,
                        size_t size) {
    int result = compare_arguments(deed->tid, deed->number, deed->args, expected, size);
    if (!still_waits(guest, id)) return -ENOENT;
    if (!result) return pass(guest, id);
    give(guest, id, -EPERM);
    return -EPERM;
}

int pass_exec(const struct guest *guest, uint64_t id, const struct deed *deed, const char *expected, size_t size,
              const struct psb_image *image) {
    struct watch watch;
    int result, ended;
    if (watch_exec(&watch, deed->tid)) return give(guest, id, -EPERM) ? -ENOENT : -EACCES;
    result = pass_if_same(guest, id, deed, expected, size);
    ended = end_watch(&watch, result ? NULL : image);
    return result ? result : ended;
}
