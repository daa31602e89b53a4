/* capset(2) on one thread: the permitted set stays, so that the effective one can be restored. Likewise the saved user
 * stays root's. Raw system calls: libc would do it in every thread. */
#include "effective_caps.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "../spawn/dumpable.h"

#define SAME ((uint32_t)-1)

static int set_powers(const struct __user_cap_data_struct *data) {
    struct __user_cap_header_struct head = {_LINUX_CAPABILITY_VERSION_3, 0};
    return syscall(SYS_capset, &head, data) < 0 ? -errno : 0;
}

static int restore_user(struct powers *before) {
    int result = 0;
    if (!before->user) return 0;
    before->user = 0;
    if (syscall(SYS_setresuid, SAME, 0, before->saved_user) < 0 ||
        syscall(SYS_setresgid, SAME, before->group, SAME) < 0 ||
        syscall(SYS_setgroups, before->n_groups, before->groups) < 0)
        result = -errno;
    restore_dumpable();
    return result;
}

/* The effective capabilities go with the user, and come back with it. */
static int become(struct powers *before, uint32_t user) {
    uint32_t real, effective;
    before->n_groups = (int)syscall(SYS_getgroups, MOST_GROUPS, before->groups);
    before->group = (uint32_t)syscall(SYS_getegid);
    if (before->n_groups < 0 || syscall(SYS_getresuid, &real, &effective, &before->saved_user) < 0) return -errno;
    remember_dumpable();
    before->user = user;
    if (syscall(SYS_setgroups, 0, NULL) < 0 || syscall(SYS_setresgid, SAME, user, SAME) < 0 ||
        syscall(SYS_setresuid, SAME, user, 0) < 0) {
        const int number = errno;
        (void)restore_user(before);
        return -number;
    }
    return 0;
}

static int lower(struct powers *before, unsigned kept) {
    struct __user_cap_data_struct less[2];
    int result;
    memcpy(less, before->data, sizeof less);
    less[0].effective &= kept;
    less[1].effective = 0;
    if (less[0].effective == before->data[0].effective && !before->data[1].effective && !before->user) return 0;
    result = set_powers(less);
    before->lowered = !result;
    return result;
}

int drop_effective_caps(struct powers *before, unsigned kept, uint32_t user) {
    struct __user_cap_header_struct head = {_LINUX_CAPABILITY_VERSION_3, 0};
    int result;
    before->lowered = 0;
    before->user = 0;
    if (syscall(SYS_capget, &head, before->data) < 0) return -errno;
    result = user ? become(before, user) : 0;
    if (!result) result = lower(before, kept);
    if (result) (void)restore_user(before);
    return result;
}

int restore_powers(struct powers *before) {
    const int result = restore_user(before), restored = before->lowered ? set_powers(before->data) : 0;
    return result ? result : restored;
}
