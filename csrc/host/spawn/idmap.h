/* The swap of ids by which a cage that root starts writes root's files without being root: an idmapped mount
 * (mount_setattr(2), MOUNT_ATTR_IDMAP). Read by cffi, preprocessor lines stripped. */
#ifndef PSB_HOST_IDMAP_H
#define PSB_HOST_IDMAP_H

#include <stdint.h>

/* Whether this process, which is the host's own root (probe/kernel.py), has all the power that a cage without root's id
 * needs of it: 0, or -errno. */
int psb_has_root_s_powers(void);

/* A user namespace that swaps root with PSB_OUTSIDE, users and groups alike, and leaves every other id as it is: its
 * descriptor (close-on-exec), or -errno. */
int psb_make_idmap(void);

/* Whether a tree can be mapped by it, with all that is mounted below: 0, or -errno. Nothing of it stays. */
int psb_try_idmap(const char *path, int idmap_fd);

#endif
