/* What a supervisor does for a caged process it must do without root's own powers, which the process does not have. */
#ifndef PSB_POWERS_H
#define PSB_POWERS_H

#include <linux/capability.h>

struct powers {
    int lowered;
    struct __user_cap_data_struct data[2];
};

/* Takes the effective capabilities from this thread, all but the one it reads the caller with (CAP_SYS_PTRACE), if it
 * has any: 0, or -errno, and then nothing may be done. */
int lower_powers(struct powers *before);
void restore_powers(const struct powers *before);

#endif
