/* Whether all that a kept plan depended on is as it was. */
#ifndef PSB_LAUNCHER_HOLDS_H
#define PSB_LAUNCHER_HOLDS_H

#include "kept.h"

int still_holds(const struct kept *kept);

#endif
