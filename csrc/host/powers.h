/* What a supervisor does for a caged process it must do without powers of its own, which the process does not have.
 *
 * The one place where capabilities are laid down: by what the thread has in effect, whoever its user is. What capset(2)
 * cannot take away is asked about by on_behalf.c: the supervisor's user owns the cage's user namespace, and has every
 * capability in it and in what belongs to it (user_namespaces(7)). */
#ifndef PSB_POWERS_H
#define PSB_POWERS_H

#include <linux/capability.h>

#define READS_THE_CALLER (1U << CAP_SYS_PTRACE)
#define NO_POWERS 0U

struct powers {
    int lowered;
    struct __user_cap_data_struct data[2];
};

/* Takes the effective capabilities from this thread, all but those in `kept` (of the first 32): 0, or -errno, and then
 * nothing may be done. */
int lower_powers(struct powers *before, unsigned kept);
/* 0, or -errno: the thread goes on without what it had, and its caller has to say so. */
int restore_powers(const struct powers *before);

#endif
