/* What the cage's filter would answer outside of monitor mode, which lets refused calls pass and has to tell them from
 * those that no cage may make. */
#ifndef PSB_VERDICT_H
#define PSB_VERDICT_H

#include <linux/seccomp.h>

#include "notify.h"

enum verdict {
    VERDICT_NEVER,   /* -*number is the errno */
    VERDICT_REFUSED, /* with *number; 0: monitor lets it pass */
    VERDICT_ALLOWED
};

/* Judges a call by its registers alone, as the kernel has handed them over: nobody can change them any more. */
enum verdict verdict_of(const struct psb_rules *rules, const struct seccomp_data *data, int *number);

#endif
