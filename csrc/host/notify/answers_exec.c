/* The answer that takes its time: an execve goes on under a tracer, which looks at what the kernel has read. */
#include <errno.h>

#include "answers.h"
#include "arguments.h"
#include "image.h"

/* 0 when the kernel goes on with it. */
static int pass_if_same(const struct notified_cage *cage, uint64_t id, const struct call_facts *facts,
                        const char *expected, size_t size) {
    int result = compare_arguments(facts->tid, facts->number, facts->args, expected, size);
    if (!still_waits(cage, id)) return -ENOENT;
    if (!result) return respond_continue(cage, id);
    respond_value(cage, id, -EPERM);
    return -EPERM;
}

int pass_exec(const struct notified_cage *cage, uint64_t id, const struct call_facts *facts, const char *expected,
              size_t size, const struct psb_image *image) {
    struct watch watch;
    int result, ended;
    if (watch_exec(&watch, facts->tid)) return respond_value(cage, id, -EPERM) ? -ENOENT : -EACCES;
    result = pass_if_same(cage, id, facts, expected, size);
    ended = end_watch(&watch, result ? NULL : image);
    return result ? result : ended;
}
