/* fork would copy the host's page tables (38 us a resident MB) and carry its memory into the child; CLONE_VM shares it,
 * and so the child needs a stack of its own. It is held by one guarded size, whatever the child does: what is not
 * touched is not there. */
#include "child.h"

#include <errno.h>
#include <sched.h>
#include <sys/mman.h>

#include "clone3.h"

#define STACK_SIZE (96 * 1024)
#define GUARD_SIZE 4096

/* A child leaves its stack by exec or exit, never by returning: AddressSanitizer still sees its frames there, and would
 * take the next stack at the same address for a use of them. */
#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#else
#define ASAN_UNPOISON_MEMORY_REGION(at, size) ((void)(at), (void)(size))
#endif

char *new_child_stack(void) {
    char *stack = mmap(NULL, STACK_SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
    if (stack == MAP_FAILED) return NULL;
    mprotect(stack, GUARD_SIZE, PROT_NONE);
    return stack;
}

void free_child_stack(char *stack) {
    ASAN_UNPOISON_MEMORY_REGION(stack, STACK_SIZE);
    munmap(stack, STACK_SIZE);
}

void block_signals(sigset_t *before) {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, before);
}

long clone_child(const struct child_start *start, char *stack, int *pidfd) {
    const uint64_t flags = start->flags | CLONE_VM;
    long pid;
    if (start->cgroup_fd >= 0)
        return clone_into_cgroup(flags, start->cgroup_fd, stack, STACK_SIZE, start->run, start->argument, pidfd);
    pid = clone(start->run, stack + STACK_SIZE, (int)flags, start->argument, pidfd);
    return pid < 0 ? -errno : pid;
}
