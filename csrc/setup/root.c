/* The root of the cage: an empty tmpfs, filled by the plan's mounts, then pivoted to (pivot_root(2)).
 *
 * Nothing of the host is visible afterwards but what the plan bound: the old root is detached, and propagation was cut
 * both ways before the first mount (FS-01, FS-02). Private, not slave: what the host mounts later would arrive in a
 * bound tree without the attributes that the plan gave it, read-only among them. */

#include "../uapi.h"
#include "setup.h"

static int pivot(const char *staging, struct psb_error *error) {
    long result = sys_call(SYS_chdir, staging, 0, 0, 0, 0, 0);
    if (result < 0) return fail(error, PSB_STEP_PIVOT_ROOT, result, staging);
    /* put_old may be new_root: the old root is then stacked on top of the new one, and detaching "." reveals it. This
     * needs no directory of its own, and no other path to the old root ever exists. */
    result = sys_call(SYS_pivot_root, ".", ".", 0, 0, 0, 0);
    if (result < 0) return fail(error, PSB_STEP_PIVOT_ROOT, result, staging);
    result = sys_call(SYS_umount2, ".", MNT_DETACH, 0, 0, 0, 0);
    if (result < 0) return fail(error, PSB_STEP_DETACH, result, "/");
    result = sys_call(SYS_chdir, "/", 0, 0, 0, 0, 0);
    return result < 0 ? fail(error, PSB_STEP_DETACH, result, "/") : 0;
}

static int carry_out(const struct psb_launch *launch, uint32_t i, struct psb_error *error) {
    const struct psb_mount *mount = &launch->plan->mounts[i];
    const char *staging = launch->plan->staging;
    const int tree = launch->trees ? launch->trees[i] : NO_TREE;
    switch (mount->kind) {
    case PSB_MOUNT_UPPER: return make_upper(mount, tree, staging, error);
    case PSB_MOUNT_OVERLAY: return make_overlay(mount, tree, staging, error);
    case PSB_MOUNT_UPPER_GIVEN: return give_upper(launch, error);
    default: return carry_out_mount(mount, tree, staging, error);
    }
}

int make_root(const struct psb_launch *launch, struct psb_error *error) {
    const struct psb_plan *plan = launch->plan;
    long result, old_umask;
    uint32_t i;
    if (!(plan->namespaces & CLONE_NEWNS)) return 0;
    result = sys_call(SYS_mount, "none", "/", 0, MS_REC | MS_PRIVATE, 0, 0);
    if (result < 0) return fail(error, PSB_STEP_PROPAGATION, result, "/");
    old_umask = sys_call(SYS_umask, 0, 0, 0, 0, 0, 0); /* modes are the plan's, not the host's umask's */
    for (i = 0; i < plan->n_mounts; i++)
        if (carry_out(launch, i, error)) return -1;
    sys_call(SYS_umask, old_umask, 0, 0, 0, 0, 0);
    return pivot(plan->staging, error);
}
