/* The functions of target.h, arguments.h, paths.h and borrowed.h that Python has a use for, one by one. */
#include "target_access.h"

#include <string.h>

#include "../emulate/call_facts.h"
#include "arguments.h"
#include "borrowed.h"
#include "paths.h"
#include "target.h"

int64_t psb_read_text(int pid, uint64_t address, char *to, size_t room) {
    return read_text(pid, address, to, room);
}

int64_t psb_read_exec(int pid, int number, const uint64_t *args, char *to, size_t room) {
    return read_arguments(pid, number, args, to, room);
}

int psb_get_fd(int pid, int fd) {
    struct pidfds none = {{0}, {0}};
    const int taken = take_fd(&none, pid, fd);
    forget_pidfds(&none);
    return taken;
}

void psb_close_borrowed(int fd) {
    close_borrowed(fd);
}

int psb_look_at_paths(int pid, int number, const uint64_t *args, int on_host, struct psb_look *looks) {
    struct call_facts facts = {.tid = pid, .number = number};
    memcpy(facts.args, args, sizeof facts.args);
    return look_at_paths(&facts, on_host, 0, looks);
}
