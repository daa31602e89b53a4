/* A null device for cages (read by cffi, preprocessor lines stripped). */
#ifndef PSB_HOST_NULL_H
#define PSB_HOST_NULL_H

/* The null device on a read-only mount of nobody's: it is read and written like any, and who owns its node (root)
 * cannot change the node through the descriptor. The descriptor, or -errno: -EPERM where the caller may not mount. */
int psb_open_null(void);

#endif
