/* The memory is one, and its threads change their users at the same time: the first that begins looks, and each puts it
 * right. No lock, which a fork in between would leave held: a copy that counts one too many goes on with what was. */
#include "dumpable.h"

#include <stdint.h>
#include <sys/prctl.h>

#define ONE 4U /* who is in between; below it is what PR_GET_DUMPABLE said: 0, 1, or 2 (fs.suid_dumpable) */

static uint32_t state;

void remember_dumpable(void) {
    uint32_t now = __atomic_load_n(&state, __ATOMIC_SEQ_CST), next;
    do next = now >= ONE ? now + ONE : ONE + ((uint32_t)prctl(PR_GET_DUMPABLE, 0, 0, 0, 0) & (ONE - 1));
    while (!__atomic_compare_exchange_n(&state, &now, next, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST));
}

void restore_dumpable(void) {
    const uint32_t was = __atomic_load_n(&state, __ATOMIC_SEQ_CST) & (ONE - 1);
    prctl(PR_SET_DUMPABLE, was == 1, 0, 0, 0); /* 2 cannot be set; 0 shows no more to anybody */
    __atomic_sub_fetch(&state, ONE, __ATOMIC_SEQ_CST);
}
