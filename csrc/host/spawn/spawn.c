/* Starting a cage from the host: one vfork-style clone, whatever the host's size, from any thread.
 *
 * The child shares the host's memory (child.c) for the time of the setup and leaves it at exec, with only what was
 * prepared here. Exit signal 0: a setup that fails never shows up in the host's own wait() or SIGCHLD handling. The
 * exec of cage-init makes it SIGCHLD (as every execve does), so from then on another wait of the host, or its ignoring
 * SIGCHLD, may collect the child first: the pidfd tells when it has ended, whoever collects it. */
#include "spawn.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../../setup/setup.h"
#include "child.h"
#include "passage.h"
#include "standard_streams.h"
#include "vfork_child.h"

static int run_child(void *argument) {
    set_up_and_become_init(argument);
    sys_exit(127);
}

static long clone_cage(char *stack, struct psb_launch *launch, int *pidfd, int more) {
    const int flags = CLONE_VFORK | CLONE_PIDFD | more | (int)launch->plan->namespaces;
    const struct child_start start = {(unsigned)flags, launch->plan->cgroup_fd, run_child, launch};
    return clone_child(&start, stack, pidfd);
}

/* By way of a child that is still root: passage.c. It has the host's descriptor table, so that the pidfd is the host's,
 * and the trees are the host's to close; the cage is the host's child (CLONE_PARENT). */
struct passage {
    struct psb_launch *launch;
    int *trees;
    char *stack;
    int *pidfd;
    long pid; /* -ESRCH: none came of it */
};

static void pass(void *argument) {
    struct passage *passage = argument;
    struct psb_launch *launch = passage->launch;
    if (take_trees(launch->plan, passage->trees, &launch->error)) return;
    launch->init_fd = take_init(launch->plan, launch->init_fd, passage->trees);
    if (become_nobody(&launch->error)) return;
    passage->pid = clone_cage(passage->stack, launch, passage->pidfd, CLONE_PARENT);
}

/* A child that was killed while it waited for the cage has told nothing of it but the pidfd. */
static long end_nameless(int pidfd) {
    siginfo_t ignored;
    int tries = 0;
    if (pidfd < 0) return -ESRCH;
    syscall(SYS_pidfd_send_signal, pidfd, SIGKILL, NULL, 0);
    while (waitid(P_PIDFD, (id_t)pidfd, &ignored, WEXITED | __WALL) < 0 && errno == EINTR && tries++ < 64) {}
    close(pidfd);
    return -ESRCH;
}

static long clone_by_passage(char *stack, struct psb_launch *launch, int *pidfd) {
    struct passage passage = {.launch = launch, .stack = stack, .pidfd = pidfd, .pid = -ESRCH};
    long result;
    launch->trees = passage.trees = new_trees(launch->plan);
    if (!passage.trees) return -ENOMEM;
    result = run_in_vfork_child(CLONE_FILES, pass, &passage);
    free_trees(passage.trees, launch->plan);
    if (result < 0) return result;
    return passage.pid == -ESRCH ? end_nameless(*pidfd) : passage.pid;
}

static int start_child(struct psb_launch *launch, struct psb_opened *opened) {
    char *stack = new_child_stack();
    sigset_t before;
    int pidfd = -1;
    long pid;
    if (!stack) return fail(&opened->error, PSB_STEP_CLONE, -errno, "stack");
    block_signals(&before);
    pid = launch->plan->unrooted ? clone_by_passage(stack, launch, &pidfd) : clone_cage(stack, launch, &pidfd, 0);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    free_child_stack(stack);
    if (pid < 0 && launch->error.step) opened->error = launch->error;
    if (pid < 0) return launch->error.step ? -1 : fail(&opened->error, PSB_STEP_CLONE, pid, NULL);
    opened->pid = (int32_t)pid;
    opened->pidfd = pidfd;
    return 0;
}

static void reap_failed_child(struct psb_opened *opened) {
    int tries = 0; /* it has ended: only a filter around the host keeps us from collecting it */
    while (waitpid(opened->pid, NULL, __WALL) < 0 && errno != ECHILD && tries++ < 64) {}
    close(opened->pidfd);
    opened->pid = opened->pidfd = -1;
}

int psb_open_cage(const struct psb_plan *plan, int init_fd, struct psb_opened *opened) {
    struct psb_launch launch = {.plan = plan, .init_fd = init_fd, .host_pidfd = -1};
    int pair[2];
    memset(opened, 0, sizeof *opened);
    opened->pid = opened->pidfd = opened->control = -1;
    occupy_standard_streams();
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        return fail(&opened->error, PSB_STEP_CONTROL, -errno, "socketpair");
    launch.control_fd = pair[1];
    launch.host_pidfd = (int)syscall(SYS_pidfd_open, getpid(), 0);
    if (launch.host_pidfd < 0)
        fail(&opened->error, PSB_STEP_CONTROL, -errno, "pidfd_open");
    else if (!start_child(&launch, opened) && (launch.error.step || !launch.armed)) {
        /* Killed before it could say why: by a filter that the host lives under, or for want of memory. */
        if (!launch.error.step) fail(&launch.error, PSB_STEP_INIT_EXEC, -ESRCH, "cage-init");
        reap_failed_child(opened);
        opened->error = launch.error;
    }
    if (launch.host_pidfd >= 0) close(launch.host_pidfd);
    close(pair[1]);
    if (opened->error.step) {
        close(pair[0]);
        return -1;
    }
    opened->control = pair[0];
    return 0;
}
