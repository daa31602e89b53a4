/* Resource limits of one command (setrlimit(2)): soft and hard alike, so that the cage cannot raise them. */
#include "../uapi.h"
#include "init.h"

/* A host whose own hard limit is lower keeps it: a limit may only fall. */
static long set_limit(const struct psb_limit *wanted) {
    struct rlimit64 now = {0, 0}, next = {wanted->value, wanted->value};
    long result = sys_call(SYS_prlimit64, 0, wanted->resource, &next, 0, 0, 0);
    if (result != -EPERM) return result;
    result = sys_call(SYS_prlimit64, 0, wanted->resource, 0, &now, 0, 0);
    if (result < 0) return result;
    if (now.rlim_max < next.rlim_max) next.rlim_cur = next.rlim_max = now.rlim_max;
    return sys_call(SYS_prlimit64, 0, wanted->resource, &next, 0, 0, 0);
}

long set_limits(const struct order *order) {
    uint32_t i;
    for (i = 0; i < order->n_limits; i++) {
        long result = set_limit(&order->limits[i]);
        if (result < 0) return result;
    }
    return 0;
}
