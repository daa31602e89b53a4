/* capset(2) on one thread: the permitted set stays, so that the effective one can be restored. */
#include "powers.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static int set_powers(const struct __user_cap_data_struct *data) {
    struct __user_cap_header_struct head = {_LINUX_CAPABILITY_VERSION_3, 0};
    return syscall(SYS_capset, &head, data) < 0 ? -errno : 0;
}

int lower_powers(struct powers *before, unsigned kept) {
    struct __user_cap_header_struct head = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct __user_cap_data_struct less[2];
    int result;
    memset(before, 0, sizeof *before);
    if (syscall(SYS_capget, &head, before->data) < 0) return -errno;
    memcpy(less, before->data, sizeof less);
    less[0].effective &= kept;
    less[1].effective = 0;
    if (less[0].effective == before->data[0].effective && !before->data[1].effective) return 0;
    result = set_powers(less);
    before->lowered = !result;
    return result;
}

int restore_powers(const struct powers *before) {
    return before->lowered ? set_powers(before->data) : 0;
}
