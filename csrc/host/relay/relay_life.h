/* The begin and the end of a relay (read by cffi, preprocessor lines stripped); relay.h is what it does meanwhile. */
#ifndef PSB_HOST_RELAY_LIFE_H
#define PSB_HOST_RELAY_LIFE_H

#include "relay.h"

/* NULL when there is no memory or descriptor for it. */
struct psb_relay *psb_relay_new(void);
/* The loop: returns 0 after psb_relay_stop, -errno if it cannot go on; every pair is cut then. One thread for each
 * relay.
 */
int psb_relay_run(struct psb_relay *relay);
void psb_relay_stop(struct psb_relay *relay);
/* After the loop has returned. */
void psb_relay_free(struct psb_relay *relay);

#endif
