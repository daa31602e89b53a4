/* The output of a command, on its way from a pipe of its own to a pipe or a file of the host's; see outflow.c. */
#ifndef PSB_HOST_OUTFLOW_H
#define PSB_HOST_OUTFLOW_H

#include <stdint.h>

struct psb_outflow;

/* Passes on what arrives at `source`, in a thread of its own, until its last writer is gone or nobody reads `target`;
 * closes both then. 0 and *made, or -errno, and both are the caller's still. */
int psb_start_outflow(int source, int target, int widens_target, struct psb_outflow **made);

/* Whether all that was written before is in the target, or never will be. */
int psb_is_flushed(struct psb_outflow *flow);

/* Bytes so far. */
uint64_t psb_outflow_passed(struct psb_outflow *flow);

/* Why not all was passed on, an errno; 0 where it was, or where nobody reads any more. */
int psb_outflow_error(struct psb_outflow *flow);

/* The caller asks nothing of it any more. */
void psb_release_outflow(struct psb_outflow *flow);

#endif
