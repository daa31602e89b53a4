/* What the host's process may not become itself - a member of a cage's namespaces - a child becomes for a moment, does
 * one thing there and is gone.
 *
 * Like the child of a spawn it is in the host's memory, on a stack of its own, with every signal blocked; and it holds
 * the caller up until it is gone. It ends without a signal and is collected here, so that no other wait of the host
 * sees it. */
#include "errand.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../sys.h"
#include "dumpable.h"

#define STACK_SIZE (64 * 1024)
#define GUARD_SIZE 4096
#define MOST_TRIES 64 /* it has ended: only a filter around the host keeps us from collecting it */

/* The child leaves its stack by exit, never by returning: AddressSanitizer still sees its frames there, and would take
 * the next stack at the same address for a use of them. */
#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#else
#define ASAN_UNPOISON_MEMORY_REGION(at, size) ((void)(at), (void)(size))
#endif

struct errand {
    void (*run)(void *);
    void *argument;
};

static int run_in_child(void *argument) {
    const struct errand *errand = argument;
    errand->run(errand->argument);
    sys_exit(0);
}

int run_errand(int flags, void (*run)(void *), void *argument) {
    char *stack = mmap(NULL, STACK_SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
    struct errand errand = {run, argument};
    const int is_root = !geteuid(); /* anybody else owns the namespaces that it enters, and keeps what it has */
    sigset_t all, before;
    int pid, number, tries = 0;
    if (stack == MAP_FAILED) return -errno;
    mprotect(stack, GUARD_SIZE, PROT_NONE);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    if (is_root) remember_dumpable();
    pid = clone(run_in_child, stack + STACK_SIZE, CLONE_VM | CLONE_VFORK | flags, &errand);
    number = errno;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (pid >= 0)
        while (waitpid(pid, NULL, __WALL) < 0 && errno != ECHILD && tries++ < MOST_TRIES) {}
    if (is_root) restore_dumpable();
    ASAN_UNPOISON_MEMORY_REGION(stack, STACK_SIZE);
    munmap(stack, STACK_SIZE);
    return pid < 0 ? -number : 0;
}
