/* The relay's thread at the dialler. */
#ifndef PSB_RELAY_DIAL_SERVE_H
#define PSB_RELAY_DIAL_SERVE_H

#include "dialler.h"

/* What the dialler's epoll has. */
void serve_dialler(struct psb_relay *relay);

#endif
