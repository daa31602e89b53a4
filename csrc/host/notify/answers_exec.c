/* The answer that takes its time: an execve goes on under a tracer, which looks at what the kernel has read. One that
 * is refused waits for that, traced or not, until it is recorded: then only does its caller, or its parent, learn of
 * it. */
#include <errno.h>

#include "answers.h"
#include "arguments.h"
#include "image.h"

static int unanswered(struct psb_refused_exec *refused, const struct watch *watch, int executed, int result) {
    if (watch) {
        refused->tid = watch->tid;
        refused->group = watch->group;
    }
    refused->executed = executed;
    return result;
}

int pass_exec(const struct notified_cage *cage, uint64_t id, const struct call_facts *facts, const char *expected,
              size_t size, const struct psb_image *image, struct psb_refused_exec *refused) {
    struct watch watch;
    int changed, result;
    if (watch_exec(&watch, &facts->caller))
        return still_waits(cage, id) ? unanswered(refused, NULL, 0, -EACCES) : -ENOENT;
    changed = compare_arguments(&facts->caller, facts->number, facts->args, expected, size);
    if (still_waits(cage, id)) {
        if (changed) return unanswered(refused, &watch, 0, -EPERM);
        result = respond_continue(cage, id);
        if (!result) return follow_exec(&watch, image) ? unanswered(refused, &watch, 1, -EPERM) : 0;
    }
    end_watch(&watch);
    return -ENOENT;
}

void refuse_followed(const struct notified_cage *cage, const struct psb_refused_exec *refused) {
    const struct watch watch = {refused->tid, refused->group};
    if (refused->executed) {
        end_image(&watch);
        return;
    }
    respond_value(cage, refused->id, -EPERM);
    if (watch.group) end_watch(&watch);
}
