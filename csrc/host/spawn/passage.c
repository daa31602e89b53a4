/* From a host that is root to a cage that is not. START HERE for what such a start does more than another.
 *
 * The child that this runs in is still root. It takes every source of the plan as a detached tree, on which root and
 * PSB_OUTSIDE are swapped: only root may do that, and only to a mount that is nowhere yet. Then it gives root up and
 * clones the cage, which is the host's child and not its own. The cage looks at each tree, as it would have looked at
 * the path, and moves it in (csrc/setup/mounts.c).
 *
 * What is only read is bound as it is where its file system cannot be mapped: then the cage reads what everybody may.
 */
#include "passage.h"

#include <fcntl.h>
#include <linux/mount.h>
#include <linux/securebits.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "trees.h"

int *new_trees(const struct psb_plan *plan) {
    int *trees = malloc((plan->n_mounts + 1) * sizeof *trees); /* the last is cage-init's */
    uint32_t i;
    for (i = 0; trees && i <= plan->n_mounts; i++) trees[i] = NO_TREE;
    return trees;
}

void free_trees(int *trees, const struct psb_plan *plan) {
    uint32_t i;
    for (i = 0; trees && i <= plan->n_mounts; i++)
        if (trees[i] >= 0) close(trees[i]);
    free(trees);
}

/* A tree that could not be taken is the setup's to judge: it may have been optional. */
static int take_one(const struct psb_mount *mount, int idmap_fd, int *tree, struct psb_error *error) {
    long result;
    *tree = (int)take_tree(mount->source);
    if (*tree < 0) return 0;
    result = map_tree(*tree, idmap_fd);
    if (result < 0 && mount->flags & PSB_MUST_MAP) return fail(error, PSB_STEP_IDMAP, result, mount->source);
    if (result < 0) result = make_private(*tree);
    return result < 0 ? fail(error, PSB_STEP_IDMAP, result, mount->source) : 0;
}

static int has_source(const struct psb_mount *mount) {
    const int binds =
        mount->kind == PSB_MOUNT_BIND || mount->kind == PSB_MOUNT_OVERLAY || mount->kind == PSB_MOUNT_UPPER;
    return binds && mount->flags & PSB_VERIFY;
}

int take_trees(const struct psb_plan *plan, int *trees, struct psb_error *error) {
    uint32_t i;
    for (i = 0; i < plan->n_mounts; i++) {
        const struct psb_mount *mount = &plan->mounts[i];
        if (!has_source(mount)) continue;
        if (take_one(mount, plan->idmap_fd, &trees[i], error)) return -1;
    }
    return 0;
}

/* cage-init may be a file that only root may execute (umask 077). One that all may is executed as it lies there, which
 * is where a security module looks for it. */
int take_init(const struct psb_plan *plan, int init_fd, int *trees) {
    int *tree = &trees[plan->n_mounts];
    struct stat facts = {.st_mode = 0};
    sys_call(SYS_fstat, init_fd, &facts, 0, 0, 0, 0);
    if (facts.st_mode & S_IXOTH) return init_fd;
    *tree = (int)sys_call(SYS_open_tree, init_fd, "", OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_EMPTY_PATH, 0, 0, 0);
    return *tree >= 0 && !map_tree(*tree, plan->idmap_fd) ? *tree : init_fd;
}

/* What the user could not do to make its cage, the capabilities still can, up to the clone: a security module may allow
 * user namespaces to root alone, and the cage's cgroup is root's. */
int become_nobody(struct psb_error *error) {
    const long bits = sys_call(SYS_prctl, PR_GET_SECUREBITS, 0, 0, 0, 0, 0);
    long result = bits < 0 ? bits : sys_call(SYS_prctl, PR_SET_SECUREBITS, bits | SECBIT_NO_SETUID_FIXUP, 0, 0, 0, 0);
    if (result < 0) return fail(error, PSB_STEP_OUTSIDE, result, "securebits");
    result = sys_call(SYS_setgroups, 0, NULL, 0, 0, 0, 0);
    if (result < 0) return fail(error, PSB_STEP_OUTSIDE, result, "setgroups");
    result = sys_call(SYS_setresgid, PSB_OUTSIDE, PSB_OUTSIDE, PSB_OUTSIDE, 0, 0, 0);
    if (result < 0) return fail(error, PSB_STEP_OUTSIDE, result, "setresgid");
    result = sys_call(SYS_setresuid, PSB_OUTSIDE, PSB_OUTSIDE, PSB_OUTSIDE, 0, 0, 0);
    return result < 0 ? fail(error, PSB_STEP_OUTSIDE, result, "setresuid") : 0;
}
