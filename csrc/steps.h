/* The step names of steps.def as an enum. */
#ifndef PSB_STEPS_H
#define PSB_STEPS_H

enum psb_step {
#define PSB_STEP(name, text) PSB_STEP_##name,
#include "steps.def"
#undef PSB_STEP
    PSB_STEP_COUNT
};

#endif
