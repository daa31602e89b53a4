/* What the host's process may not become itself - a member of a cage's namespaces - a child becomes for a moment, does
 * one thing there and is gone.
 *
 * Like the child of a spawn it is in the host's memory, on a stack of its own, with every signal blocked; and it holds
 * the caller up until it is gone. It ends without a signal and is collected here, so that no other wait of the host
 * sees it. */
#include "vfork_child.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../../sys.h"
#include "child.h"
#include "dumpable.h"

#define MOST_TRIES 64 /* it has ended: only a filter around the host keeps us from collecting it */

struct child_work {
    void (*run)(void *);
    void *argument;
};

static int run_in_child(void *argument) {
    const struct child_work *work = argument;
    work->run(work->argument);
    sys_exit(0);
}

static void collect(long pid) {
    int tries = 0;
    while (waitpid((pid_t)pid, NULL, __WALL) < 0 && errno != ECHILD && tries++ < MOST_TRIES) {}
}

int run_in_vfork_child(int flags, void (*run)(void *), void *argument) {
    struct child_work work = {run, argument};
    const struct child_start start = {CLONE_VFORK | (unsigned)flags, -1, run_in_child, &work};
    const int is_root = !geteuid(); /* anybody else owns the namespaces that it enters, and keeps what it has */
    char *stack = new_child_stack();
    sigset_t before;
    long pid;
    if (!stack) return -errno;
    block_signals(&before);
    if (is_root) remember_dumpable();
    pid = clone_child(&start, stack, NULL);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (pid >= 0) collect(pid);
    if (is_root) restore_dumpable();
    free_child_stack(stack);
    return pid < 0 ? (int)pid : 0;
}
