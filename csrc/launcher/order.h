/* The order of the command. */
#ifndef PSB_LAUNCHER_ORDER_H
#define PSB_LAUNCHER_ORDER_H

#include "run.h"

/* Whether each variable that the command line gives is where the plan has seen it. */
int are_given(const struct run *run);

/* Makes and sends it; its reports come on the pipe whose write end is `report`. 0, or -errno. */
int send_order(const struct run *run, int report);

#endif
