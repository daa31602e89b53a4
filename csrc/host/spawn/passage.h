/* The short-lived child of a host that is root, by which it starts a cage that is not; see passage.c. */
#ifndef PSB_HOST_PASSAGE_H
#define PSB_HOST_PASSAGE_H

#include "../../setup/setup.h"

/* In that child: whatever is missing is in launch->error, and -1. */
int take_trees(const struct psb_plan *plan, int *trees, struct psb_error *error);
int become_nobody(struct psb_error *error);
/* The descriptor to execute cage-init by. */
int take_init(const struct psb_plan *plan, int init_fd, int *trees);

/* Room for a tree for each mount, none taken yet; NULL for want of memory. */
int *new_trees(const struct psb_plan *plan);
void free_trees(int *trees, const struct psb_plan *plan);

#endif
