/* What this build is (read by cffi, preprocessor lines stripped). */
#ifndef PSB_HOST_BUILD_H
#define PSB_HOST_BUILD_H

/* A digest of what the extension and cage-init must agree on; cage-init has the same in its file. */
const char *psb_abi(void);
/* Name of a step, or NULL past the end. */
const char *psb_step_name(int step);

#endif
