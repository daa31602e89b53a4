/* START HERE: the order in which a fresh clone becomes a cage.
 *
 * The order is the security argument. The user namespace comes first, since every other step needs the power it gives;
 * the root is made and pivoted before anything of the cage can run; the Landlock ruleset is made in the finished view,
 * so its rules mean what the cage sees; capabilities and the right to gain any go last, and then the process becomes
 * cage-init, which never has any. */
#include "setup.h"

int set_up_and_become_init(struct psb_launch *launch) {
    const struct psb_plan *plan = launch->plan;
    struct psb_error *error = &launch->error;
    int ruleset;

    if (enter_user_namespace(plan, error)) return -1;
    if (leave_inotify_to_the_user(plan, error)) return -1;
    if (leave_limits_to_the_user(plan, error)) return -1;
    if (leave_host_keyring(plan, error)) return -1;
    if (set_hostname(plan, error)) return -1;
    if (make_root(launch, error)) return -1;
    if (raise_loopback(plan, error)) return -1;
    ruleset = make_ruleset(&plan->landlock, error);
    if (ruleset < 0) return -1;
    if (drop_capabilities(plan, error)) return -1;
    if (scope_init_signals(plan, error)) return -1;
    return become_init(launch, ruleset, error);
}
