/* A process confines itself: limits, no capabilities, a Landlock domain, a filter of system calls (landlock(7),
 * seccomp(2)).
 *
 * Everything that can fail without a trace comes first: the ruleset is made while the paths can still be opened, and
 * the threads are counted. What follows cannot be undone, so `confined` tells how far it came.
 *
 * THREADS. A domain is of one thread before Landlock's ABI 8, and so are capabilities on every kernel: another thread
 * of the process would go on unconfined, and could write into the memory of this one. So there may be none. The
 * kernel is asked, not /proc, which may be hidden or closed by an earlier domain: unshare(CLONE_VM) changes nothing for
 * a process that has its memory to itself and is EINVAL for any other, a vfork that is under way included. Where a
 * filter refuses that call (ours, once confined; a container's), /proc counts the threads. */
#include "confine.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stddef.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "../../setup/setup.h"

#define LANDLOCK_TSYNC (1U << 3) /* LANDLOCK_RESTRICT_SELF_TSYNC, ABI 8 */

/* The links of this directory are ".", ".." and one for each thread. It can be asked where it cannot be listed. */
static int has_threads_by_proc(void) {
    struct statx facts;
    long result = sys_call(SYS_statx, AT_FDCWD, "/proc/self/task", 0, STATX_NLINK, &facts, 0);
    return result < 0 || facts.stx_nlink != 3;
}

static int shares_its_memory(struct psb_error *error) {
    long result = sys_call(SYS_unshare, CLONE_THREAD | CLONE_SIGHAND | CLONE_VM, 0, 0, 0, 0, 0);
    if (result == -EPERM && !has_threads_by_proc()) return 0;
    return result < 0 ? fail(error, PSB_STEP_THREADS, -EINVAL, NULL) : 0;
}

static int holds_capabilities(struct psb_error *error) {
    struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct __user_cap_data_struct sets[2];
    long result = sys_call(SYS_capget, &header, sets, 0, 0, 0, 0);
    if (result < 0) return fail(error, PSB_STEP_CAPS, result, "capget");
    if (sets[0].permitted | sets[1].permitted) return fail(error, PSB_STEP_THREADS, -EPERM, "capabilities");
    return 0;
}

/* `together`: the other threads are taken along; a capability could not be taken from them. */
static int look_for_threads(uint32_t flags, int *together, struct psb_error *error) {
    if (shares_its_memory(error) == 0) return 0;
    if (!(flags & PSB_CONFINE_ALL_THREADS)) return -1;
    *together = 1;
    return holds_capabilities(error);
}

static int enter_domain(int ruleset, int together, struct psb_error *error) {
    long result = sys_call(SYS_landlock_restrict_self, ruleset, together ? LANDLOCK_TSYNC : 0, 0, 0, 0, 0);
    return result < 0 ? fail(error, PSB_STEP_LANDLOCK, result, NULL) : 0;
}

/* With TSYNC the answer is 0, -errno, or the thread that could not be taken along. */
static int install_filter(const uint8_t *filter, uint32_t count, struct psb_error *error) {
    const struct sock_fprog program = {(unsigned short)count, (struct sock_filter *)(uintptr_t)filter};
    long result = sys_call(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program, 0, 0, 0);
    if (result > 0) return fail(error, PSB_STEP_THREADS, -EINVAL, "seccomp");
    return result < 0 ? fail(error, PSB_STEP_SECCOMP, result, NULL) : 0;
}

static int lower_limit(const struct psb_limit *limit, struct psb_error *error) {
    struct rlimit64 has;
    long result = sys_call(SYS_prlimit64, 0, limit->resource, NULL, &has, 0, 0);
    if (result < 0) return fail(error, PSB_STEP_LIMIT, result, NULL);
    if (limit->value < has.rlim_cur) has.rlim_cur = limit->value;
    if (limit->value < has.rlim_max) has.rlim_max = limit->value;
    result = sys_call(SYS_prlimit64, 0, limit->resource, &has, NULL, 0, 0);
    return result < 0 ? fail(error, PSB_STEP_LIMIT, result, NULL) : 0;
}

static int lower_limits(struct psb_confinement *it) {
    uint32_t i;
    for (i = 0; i < it->n_limits; i++) {
        if (lower_limit(&it->limits[i], &it->error)) return -1;
        it->confined |= PSB_CONFINED_LIMITS;
    }
    return 0;
}

static int confine_with(int ruleset, struct psb_confinement *it) {
    const struct psb_plan plan = {.namespaces = 0};
    int together = 0;
    if (look_for_threads(it->flags, &together, &it->error)) return -1;
    if (lower_limits(it)) return -1;
    if (drop_capabilities(&plan, &it->error)) return -1;
    it->confined |= PSB_CONFINED_CAPS;
    if (enter_domain(ruleset, together, &it->error)) return -1;
    it->confined |= PSB_CONFINED_LANDLOCK;
    if (install_filter(it->filter, it->filter_count, &it->error)) return -1;
    it->confined |= PSB_CONFINED_SECCOMP;
    return 0;
}

int psb_confine(struct psb_confinement *it) {
    int ruleset, result;
    it->confined = 0;
    if (!it->landlock.enabled || !it->filter_count) return fail(&it->error, PSB_STEP_LANDLOCK, -EINVAL, NULL);
    ruleset = make_ruleset(&it->landlock, &it->error);
    if (ruleset < 0) return -1;
    result = confine_with(ruleset, it);
    sys_close(ruleset);
    return result;
}
