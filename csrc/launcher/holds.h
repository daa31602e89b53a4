/* Whether all that a kept plan depended on is as it was. */
#ifndef PSB_LAUNCHER_HOLDS_H
#define PSB_LAUNCHER_HOLDS_H

#include "kept.h"

/* Asked before anything is made: the variables, which cost nothing, and the cgroup, which is made on the host. */
int may_begin(const struct kept *kept);
/* All the rest: some hundred looks at files. */
int still_holds(const struct kept *kept);

#endif
