/* What the supervisor does for a caged process it must do without capabilities, since the process has none.
 *
 * The one place where capabilities are laid down: by what the thread has in effect, whoever its user is; and where root
 * becomes the user whom its cage is outside: that user's are then the files, the sockets and what peers see. What
 * capset(2) cannot take away is asked about by emulate/table.c: the supervisor's user owns the cage's user namespace,
 * and has every capability in it and in what belongs to it (user_namespaces(7)). */
#ifndef PSB_EFFECTIVE_CAPS_H
#define PSB_EFFECTIVE_CAPS_H

#include <linux/capability.h>
#include <stdint.h>

#define READS_THE_CALLER (1U << CAP_SYS_PTRACE)
#define NO_POWERS 0U

#define MOST_GROUPS 256

struct powers {
    int lowered;
    struct __user_cap_data_struct data[2];
    uint32_t user; /* that the thread has become; 0: it is who it was */
    uint32_t saved_user, group;
    int n_groups;
    uint32_t groups[MOST_GROUPS];
};

/* Takes the effective capabilities from this thread, all but those in `kept` (of the first 32). `user`: and makes it
 * that user and group, with no other group, whom a cage is outside that root has started; 0: it stays who it is. 0, or
 * -errno, and then nothing may be done. */
int drop_effective_caps(struct powers *before, unsigned kept, uint32_t user);
/* 0, or -errno: the thread goes on without what it had, and its caller has to say so. */
int restore_powers(struct powers *before);

#endif
