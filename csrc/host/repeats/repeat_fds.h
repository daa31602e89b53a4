/* Who has a descriptor. */
#ifndef PSB_HOST_REPEAT_FDS_H
#define PSB_HOST_REPEAT_FDS_H

#include "repeat_state.h"

/* 0, or -ENOMEM, which it never is for nobody. */
int know_fd(struct psb_repeats *repeats, int fd, struct repeat_fd who);
struct repeat_fd who_has(const struct psb_repeats *repeats, int fd);

#endif
