/* Short turns on the CPU. Whoever wants less at a time is served sooner (EEVDF, settable since Linux 6.12): that takes
 * no privilege and gives nobody more CPU. Older kernels take the call and keep their turns. */
#include "sched_slice.h"

#include <errno.h>
#include <linux/sched.h>
#include <linux/sched/types.h>
#include <sys/syscall.h>
#include <unistd.h>

int psb_take_short_turns(uint64_t nanoseconds) {
    struct sched_attr own = {0};
    if (syscall(SYS_sched_getattr, 0, &own, sizeof own, 0)) return -errno;
    if (own.sched_policy != SCHED_NORMAL) return 0; /* somebody has chosen for this program */
    own.sched_runtime = nanoseconds;
    own.sched_flags = 0;
    return syscall(SYS_sched_setattr, 0, &own, 0) ? -errno : 0;
}
