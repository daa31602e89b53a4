/* Whether the host's memory is dumpable (PR_SET_DUMPABLE), which the kernel takes from a process whenever a thread of
 * it, or a child in its memory, changes its user. Between the two calls that may happen; after the last of those who
 * are in between, it is as it was. */
#ifndef PSB_HOST_DUMPABLE_H
#define PSB_HOST_DUMPABLE_H

void remember_dumpable(void);
void restore_dumpable(void);

#endif
