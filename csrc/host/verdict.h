/* What the cage's filter would answer if nobody watched: monitor lets calls pass that are refused otherwise, and has to
 * tell them from those that no cage may make. */
#ifndef PSB_VERDICT_H
#define PSB_VERDICT_H

#include <linux/seccomp.h>

#include "notify.h"

enum verdict {
    VERDICT_ALLOWED,
    VERDICT_REFUSED, /* but for monitor */
    VERDICT_NEVER    /* -*number is the errno */
};

/* Of a call as the kernel has handed it over: registers alone, which nobody can change any more. */
enum verdict verdict_of(const struct psb_rules *rules, const struct seccomp_data *data, int *number);

#endif
