/* What this build is: its digest, and the names of its steps. */
#include "build.h"

#include <stddef.h>

#include "../../steps.h"

#ifndef PSB_ABI
#define PSB_ABI "unknown" /* built by hand: CMakeLists.txt says what it is */
#endif

const char *psb_abi(void) {
    return PSB_ABI;
}

const char *psb_step_name(int step) {
    static const char *const names[] = {
#define PSB_STEP(name, text) text,
#include "../../steps.def"
#undef PSB_STEP
    };
    _Static_assert(sizeof names / sizeof *names == PSB_STEP_COUNT, "a name for every step");
    return step >= 0 && step < PSB_STEP_COUNT ? names[step] : NULL;
}
