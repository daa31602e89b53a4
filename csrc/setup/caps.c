/* Capabilities go, all five sets of them, and with no_new_privs the way back (capabilities(7)).
 *
 * cage-init and every command inherit the empty sets: nothing in a cage ever holds a capability over anything, and the
 * mounts above it need no lock. The bounding set is emptied too, so that exec by an inside uid 0 brings nothing back.
 */
#include <linux/capability.h>

#include "../uapi.h"
#include "setup.h"

static int empty_bounding_set(const struct psb_plan *plan, struct psb_error *error) {
    long capability;
    for (capability = 0; capability < 64; capability++) {
        long result = sys_call(SYS_prctl, PR_CAPBSET_DROP, capability, 0, 0, 0, 0);
        if (result == -EINVAL) return 0; /* past cap_last_cap */
        /* Landlock mode, unprivileged: there is nothing to drop from, and no_new_privs keeps it so. */
        if (result == -EPERM && !(plan->namespaces & CLONE_NEWUSER)) return 0;
        if (result < 0) return fail(error, PSB_STEP_CAPS, result, "bounding set");
    }
    return 0;
}

int drop_capabilities(const struct psb_plan *plan, struct psb_error *error) {
    struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct __user_cap_data_struct none[2] = {{0, 0, 0}, {0, 0, 0}};
    long result;
    if (plan->unconfined) return 0;
    if (empty_bounding_set(plan, error)) return -1;
    result = sys_call(SYS_prctl, PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0, 0);
    if (result < 0) return fail(error, PSB_STEP_CAPS, result, "ambient set");
    result = sys_call(SYS_capset, &header, none, 0, 0, 0, 0);
    if (result < 0) return fail(error, PSB_STEP_CAPS, result, "capset");
    result = sys_call(SYS_prctl, PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0, 0);
    return result < 0 ? fail(error, PSB_STEP_NO_NEW_PRIVS, result, NULL) : 0;
}
