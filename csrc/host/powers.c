/* capset(2) on one thread: the permitted set stays, so that the effective one can be restored. */
#include "powers.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static struct __user_cap_header_struct header(void) {
    return (struct __user_cap_header_struct){_LINUX_CAPABILITY_VERSION_3, 0};
}

int lower_powers(struct powers *before) {
    struct __user_cap_header_struct head = header();
    struct __user_cap_data_struct less[2];
    memset(before, 0, sizeof *before);
    if (geteuid()) return 0;
    if (syscall(SYS_capget, &head, before->data) < 0) return -errno;
    memcpy(less, before->data, sizeof less);
    less[0].effective &= 1U << CAP_SYS_PTRACE;
    less[1].effective = 0;
    head = header();
    if (syscall(SYS_capset, &head, less) < 0) return -errno;
    before->lowered = 1;
    return 0;
}

/* A thread that cannot get its powers back goes on with fewer. */
void restore_powers(const struct powers *before) {
    struct __user_cap_header_struct head = header();
    if (before->lowered && syscall(SYS_capset, &head, before->data) < 0) errno = 0;
}
