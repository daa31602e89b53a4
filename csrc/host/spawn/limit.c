/* The limits of a caged process, for a host that may be root without CAP_SYS_RESOURCE: over a cage that is nobody
 * outside its user has that power, as who made its user namespace (user_namespaces(7)), and root has not. */
#include "limit.h"

#include <errno.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "../../abi.h"
#include "../notify/effective_caps.h"

static int limit_hard(int pid, int resource, const struct rlimit *to, uint64_t *hard) {
    struct rlimit had;
    if (syscall(SYS_prlimit64, pid, resource, to, &had) < 0) return -errno;
    *hard = had.rlim_max;
    return 0;
}

int psb_limit(int pid, int resource, int set, uint64_t value, uint64_t *hard) {
    const struct rlimit to = {value, value};
    int result = limit_hard(pid, resource, set ? &to : NULL, hard), restored;
    struct powers powers;
    if (result != -EPERM || geteuid()) return result;
    result = drop_effective_caps(&powers, NO_POWERS, PSB_OUTSIDE);
    if (result) return result;
    result = limit_hard(pid, resource, set ? &to : NULL, hard);
    restored = restore_powers(&powers);
    return result ? result : restored;
}
