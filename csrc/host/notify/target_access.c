/* The functions of target.h, arguments.h, paths.h and borrowed.h that Python has a use for, one by one.
 *
 * They hold no mutex of the cage while they look, and a listener of their own, by which they know whether the caller
 * still waits, whatever becomes of the cage. */
#include "target_access.h"

#include <errno.h>
#include <string.h>

#include "../emulate/call_facts.h"
#include "arguments.h"
#include "borrowed.h"
#include "paths.h"
#include "target.h"
#include "visits.h"

int64_t psb_read_text(struct psb_notifier *notifier, uint64_t pending, uint64_t address, char *to, size_t room) {
    struct call_facts facts;
    int64_t result = hold_waiting(notifier, pending, &facts);
    if (result) return result;
    result = read_text(&facts.caller, address, to, room);
    close_own(facts.caller.listener);
    return result;
}

int64_t psb_read_exec(struct psb_notifier *notifier, uint64_t pending, char *to, size_t room) {
    struct call_facts facts;
    int64_t result = hold_waiting(notifier, pending, &facts);
    if (result) return result;
    result = read_arguments(&facts.caller, facts.number, facts.args, to, room);
    close_own(facts.caller.listener);
    return result;
}

int psb_look_at_paths(struct psb_notifier *notifier, uint64_t pending, int on_host, struct psb_look *looks) {
    struct call_facts facts;
    int result = hold_waiting(notifier, pending, &facts);
    if (result) return result;
    result = look_at_paths(&facts, on_host, 0, looks);
    close_own(facts.caller.listener);
    return result;
}

static int take_one(const struct target *caller, int fd) {
    struct pidfds none = {{0}, {0}};
    const int taken = take_fd(&none, caller, fd);
    forget_pidfds(&none);
    return taken;
}

int psb_take_fd(struct psb_notifier *notifier, uint64_t pending, int fd) {
    struct call_facts facts;
    int result = hold_waiting(notifier, pending, &facts);
    if (result) return result;
    result = take_one(&facts.caller, fd);
    close_own(facts.caller.listener);
    return result;
}

int psb_get_fd(int pid, int fd) {
    const struct target whoever = {.tid = pid, .listener = -1, .held = 1};
    return take_one(&whoever, fd);
}

void psb_close_borrowed(int fd) {
    close_borrowed(fd);
}
