/* What setrlimit(2) says of a process, and the kernel counts for its user: a cage has a part of it, as its hard limit,
 * whatever its commands are allowed besides. A cage with a user namespace of its own is counted apart there, and once
 * more for the user outside: half is left to him. Without one, all that he runs is counted together, so that the cage
 * has what he does not use, down to his last quarter. */
#include "../uapi.h"
#include "setup.h"

static const int counted_per_user[] = {RLIMIT_NPROC, RLIMIT_MEMLOCK, RLIMIT_SIGPENDING, RLIMIT_MSGQUEUE};

static uint64_t share_of(uint64_t all, int is_counted_apart) {
    return is_counted_apart ? all / 2 : all - all / 4;
}

/* The user's own programs are held by their soft limit: that is what there is to share. */
static long leave_part_of(int resource, int is_counted_apart) {
    struct rlimit64 limit = {0, 0};
    long result = sys_call(SYS_prlimit64, 0, resource, 0, &limit, 0, 0);
    if (result < 0 || limit.rlim_cur == RLIM64_INFINITY) return result;
    limit.rlim_cur = limit.rlim_max = share_of(limit.rlim_cur, is_counted_apart);
    return sys_call(SYS_prlimit64, 0, resource, &limit, 0, 0, 0);
}

int leave_limits_to_the_user(const struct psb_plan *plan, struct psb_error *error) {
    const int is_counted_apart = !!(plan->namespaces & CLONE_NEWUSER);
    if (plan->unconfined) return 0;
    for (size_t i = 0; i < sizeof counted_per_user / sizeof *counted_per_user; i++) {
        const long result = leave_part_of(counted_per_user[i], is_counted_apart);
        if (result < 0) return fail(error, PSB_STEP_USER_COUNTS, result, NULL);
    }
    return 0;
}
