/* The cgroup of a cage (pysandbox/live/cgroup.py): made before the cage, which is born in it, and removed after it.
 *
 * The plan names the group below which it is made, and where that is was seen when it was kept: it is reached without
 * symlinks, must be the same directory of a cgroup v2 tree, and what is made there is reached by descriptors. What is
 * not as it was leads back to Python. A launcher that was killed leaves an empty group, which names its owner: the next
 * one takes it away. */
#ifndef PSB_LAUNCHER_CGROUP_H
#define PSB_LAUNCHER_CGROUP_H

#include "kept.h"

struct cgroup {
    int parent, fd; /* -1: the cage has none */
    char name[128];
    char *path;
};

/* Whether the group can be made as the plan has it, by this process. */
int cgroup_holds(const struct kept *kept);
/* A new, empty group with its limits, where the plan has one: 0, or -1; nothing is left then. */
int open_cgroup(struct cgroup *cgroup, const struct kept *kept, const char *id);
/* Whether the kernel has killed for want of memory in it, or refused a fork. */
int has_refused(const struct cgroup *cgroup);
/* Kills what is left, and removes it. Idempotent. */
void close_cgroup(struct cgroup *cgroup);

#endif
