/* A clone that is born in a cgroup; see clone3.c. */
#ifndef PSB_HOST_CLONE3_H
#define PSB_HOST_CLONE3_H

#include <stddef.h>
#include <stdint.h>

struct clone_arguments { /* struct clone_args as of 5.7, which brought `cgroup` */
    uint64_t flags, pidfd, child_tid, parent_tid, exit_signal, stack, stack_size, tls, set_tid, set_tid_size, cgroup;
};

/* clone3(2): a child that runs run(argument) on `stack`, in the cgroup v2 directory `cgroup_fd`, and never returns.
 * `flags` as for clone, without an exit signal. Returns its pid, or -errno; *pidfd with CLONE_PIDFD. */
long clone_into_cgroup(uint64_t flags, int cgroup_fd, void *stack, size_t stack_size, int (*run)(void *),
                       void *argument, int *pidfd);

#endif
