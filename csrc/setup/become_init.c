/* The last step of setup: arrange cage-init's descriptors and exec it. Nothing of the host's memory survives that. */
#include "../uapi.h"
#include "setup.h"

#define CLEAR_OF_TARGETS 64 /* sources are first copied above every number that a target uses */

/* fds 0-2 of cage-init are the null device: it says nothing but reports. */
static int arrange(const int *sources, struct psb_error *error) {
    static const int targets[] = {0, 1, 2, PSB_FD_CONTROL, PSB_FD_HOST, PSB_FD_RULESET};
    int moved[PSB_FD_FIRST_FREE], i;
    _Static_assert(sizeof targets / sizeof *targets == PSB_FD_FIRST_FREE, "a target for every descriptor it has");
    for (i = 0; i < PSB_FD_FIRST_FREE; i++) {
        long fd = sys_call(SYS_fcntl, sources[i], F_DUPFD_CLOEXEC, CLEAR_OF_TARGETS, 0, 0, 0);
        if (fd < 0) return fail(error, PSB_STEP_INIT_FDS, fd, NULL);
        moved[i] = (int)fd;
    }
    for (i = 0; i < PSB_FD_FIRST_FREE; i++) {
        long result = sys_call(SYS_dup3, moved[i], targets[i], 0, 0, 0, 0);
        if (result < 0) return fail(error, PSB_STEP_INIT_FDS, result, NULL);
    }
    return 0;
}

int become_init(struct psb_launch *launch, int ruleset, struct psb_error *error) {
    /* The executable is opened last of all, above the others, and closes itself at exec. */
    static const char *const argv[] = {"cage-init", NULL};
    static const char *const envp[] = {NULL};
    long null = sys_open("/dev/null", O_RDWR | O_CLOEXEC, 0), init, result;
    int sources[PSB_FD_FIRST_FREE];
    if (null < 0) null = ruleset; /* a cage without /dev: any descriptor that leads nowhere */
    init = sys_call(SYS_fcntl, launch->init_fd, F_DUPFD_CLOEXEC, CLEAR_OF_TARGETS, 0, 0, 0);
    if (init < 0) return fail(error, PSB_STEP_INIT_FDS, init, NULL);
    sources[0] = sources[1] = sources[2] = (int)null;
    sources[3] = launch->control_fd;
    sources[4] = launch->host_pidfd;
    sources[5] = ruleset;
    if (arrange(sources, error)) return -1;
    /* Only now: what is not cage-init's is closed, whatever flag it was opened with. */
    result = sys_call(SYS_close_range, PSB_FD_FIRST_FREE, init - 1, 0, 0, 0, 0);
    if (result < 0) return fail(error, PSB_STEP_INIT_FDS, result, NULL);
    result = sys_call(SYS_close_range, init + 1, ~0U, 0, 0, 0, 0);
    if (result < 0) return fail(error, PSB_STEP_INIT_FDS, result, NULL);
    launch->armed = 1;
    result = sys_call(SYS_execveat, init, "", argv, envp, AT_EMPTY_PATH, 0);
    return fail(error, PSB_STEP_INIT_EXEC, result, "cage-init");
}
