/* From cage-init's child to the command: confine oneself, then exec.
 *
 * The child shares cage-init's memory until it execs: a failure is written once, into the attempt, where it happened.
 * The order of `become_command` is fixed: descriptors before limits (a low RLIMIT_NOFILE would refuse dup3), Landlock
 * after chdir, and last the late filter, for what cage-init's own filter had to leave open (seccomp.c). */
#include "../uapi.h"
#include "init.h"

static long move_above(int fd, int32_t above) {
    return sys_call(SYS_fcntl, fd, F_DUPFD_CLOEXEC, above, 0, 0, 0);
}

static int place_descriptors(struct attempt *attempt) {
    struct order *order = attempt->order;
    int32_t above = PSB_FD_FIRST_FREE;
    long result;
    uint32_t i;
    for (i = 0; i < order->n_fds; i++)
        if (order->targets[i] >= above) above = order->targets[i] + 1;
    for (i = 0; i < order->n_fds; i++) { /* out of the way of every target */
        result = move_above(order->fds[i], above);
        if (result < 0) return fail(&attempt->error, PSB_STEP_FDS, result, NULL);
        order->fds[i] = (int)result;
    }
    /* Its last copy closes at exec, and not when a target is placed over it: cage-init waits for that. */
    result = move_above(attempt->exec_pipe, above);
    if (result < 0) return fail(&attempt->error, PSB_STEP_FDS, result, NULL);
    for (i = 0; i < order->n_fds; i++) {
        result = sys_call(SYS_dup3, order->fds[i], order->targets[i], 0, 0, 0, 0);
        if (result < 0) return fail(&attempt->error, PSB_STEP_FDS, result, NULL);
    }
    return 0;
}

static int take_terminal(struct attempt *attempt) {
    long result;
    if (!(attempt->order->flags & PSB_EXEC_TERMINAL)) return 0;
    result = sys_call(SYS_ioctl, 0, TIOCSCTTY, 0, 0, 0, 0);
    return result < 0 ? fail(&attempt->error, PSB_STEP_TERMINAL, result, "controlling terminal") : 0;
}

/* Like execvp: the next candidate only when this one is not there; a refusal is remembered over an absence. */
static int exec_first(struct attempt *attempt) {
    const struct order *order = attempt->order;
    long worst = -ENOENT;
    const char *path = order->paths[0];
    uint32_t i;
    for (i = 0; i < order->n_paths; i++) {
        long result = sys_call(SYS_execve, order->paths[i], order->argv, order->envp, 0, 0, 0);
        if ((result == -ENOENT || result == -ENOTDIR) && order->n_paths > 1) continue;
        worst = result;
        path = order->paths[i];
        if (result != -EACCES) break;
    }
    if (worst == -ENOENT) path = order->argv[0];
    return fail(&attempt->error, PSB_STEP_EXEC, worst, path);
}

int become_command(struct attempt *attempt) {
    const struct order *order = attempt->order;
    uint64_t none = 0;
    long result;

    if (attempt->cage->flags & PSB_SETUP_SUBREAPER) {
        result = sys_call(SYS_prctl, PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0, 0);
        if (result < 0) return fail(&attempt->error, PSB_STEP_FORK, result, "parent death signal");
    }
    result = sys_call(SYS_setsid, 0, 0, 0, 0, 0, 0);
    if (result < 0) return fail(&attempt->error, PSB_STEP_SETSID, result, NULL);
    result = sys_call(SYS_chdir, order->cwd, 0, 0, 0, 0, 0);
    if (result < 0) return fail(&attempt->error, PSB_STEP_CHDIR, result, order->cwd);
    sys_call(SYS_umask, attempt->cage->umask, 0, 0, 0, 0, 0);
    result = enter_landlock(attempt->cage); /* through a descriptor that may be placed over next */
    if (result < 0) return fail(&attempt->error, PSB_STEP_LANDLOCK, result, NULL);
    if (place_descriptors(attempt)) return -1;
    if (take_terminal(attempt)) return -1;
    result = set_limits(order);
    if (result < 0) return fail(&attempt->error, PSB_STEP_LIMIT, result, NULL);
    sys_call(SYS_rt_sigprocmask, SIG_SETMASK, &none, 0, sizeof none, 0, 0);
    result = install_late_filter(attempt->cage);
    if (result < 0) return fail(&attempt->error, PSB_STEP_SECCOMP, result, NULL);
    return exec_first(attempt);
}
