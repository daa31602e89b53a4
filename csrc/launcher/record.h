/* The record of the cage, for other processes of this user; without a place for it there is none. */
#ifndef PSB_LAUNCHER_RECORD_H
#define PSB_LAUNCHER_RECORD_H

#include "run.h"

/* `run` is a struct run. */
void write_record(void *run);
void remove_record(struct run *run);

#endif
