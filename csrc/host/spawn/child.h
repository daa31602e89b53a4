/* A child in the host's own memory (CLONE_VM): the one place where a stack is made for one, and where it is cloned. */
#ifndef PSB_HOST_CHILD_H
#define PSB_HOST_CHILD_H

#include <signal.h>
#include <stdint.h>

/* With a page below it that nobody may touch; NULL with errno. For one child at a time. */
char *new_child_stack(void);
/* When the child has ended or executed something else. */
void free_child_stack(char *stack);

/* The host's handlers must not run in the child: every signal is blocked from before the clone, until
 * pthread_sigmask(3) puts back what was. */
void block_signals(sigset_t *before);

struct child_start {
    uint64_t flags; /* of clone(2); CLONE_VM is added, and there is no exit signal: no wait or SIGCHLD sees its end */
    int cgroup_fd;  /* the cgroup that it is born in, -1: the host's own */
    int (*run)(void *);
    void *argument;
};

/* Raw system calls only, so a child may call this as well. The child's pid, or -errno; *pidfd with CLONE_PIDFD. */
long clone_child(const struct child_start *start, char *stack, int *pidfd);

#endif
