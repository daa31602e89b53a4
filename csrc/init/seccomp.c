/* The filters of system calls (seccomp(2)), never loosened after.
 *
 * One is the whole cage's: cage-init lives under it, and commands inherit it. What the policy refuses and cage-init
 * needs, that one leaves open; a second one, which each command installs last before its exec, closes it. Of two
 * filters the stricter answer counts, so together they are the policy's. cage-init's own duties never depend on it.
 *
 * With a listener the filter is one for the whole cage. A copy of the listener that stays in the cage would keep calls
 * waiting after the host has died, so cage-init holds its own only until the host has taken it. */
#include <linux/filter.h>
#include <linux/seccomp.h>

#include "../uapi.h"
#include "init.h"

#ifndef SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV
#define SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV                                                                         \
    (1UL << 5) /* Linux 5.19: a timer must not repeat a call that is decided */
#endif
#define LISTENING (SECCOMP_FILTER_FLAG_NEW_LISTENER | SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV)

_Static_assert(sizeof(struct bpf_instruction) == sizeof(struct sock_filter), "a filter goes to the kernel as it came");
_Static_assert(PSB_MAX_FILTER == BPF_MAXINSNS, "as many instructions as the kernel takes");

struct filter_program {
    uint16_t length;
    const struct bpf_instruction *instructions;
};

static long install(const struct bpf_instruction *instructions, uint32_t count, unsigned long flags) {
    struct filter_program program = {(uint16_t)count, instructions};
    return count ? sys_call(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &program, 0, 0, 0) : 0;
}

long install_filter(const struct cage *cage) {
    return install(cage->filter, cage->filter_count, 0);
}

long install_late_filter(const struct cage *cage) {
    return install(cage->filter + cage->filter_count, cage->late_count, 0);
}

/* Without a user namespace the host may look only into a dumpable process: it takes the listener, and reads the command
 * that is about to be executed. The cage's processes may not: Landlock lets no one trace out of its domain. */
static void let_host_look(const struct cage *cage) { /* where that fails, the host cannot take the listener */
    if (cage->flags & PSB_SETUP_SUBREAPER) sys_call(SYS_prctl, PR_SET_DUMPABLE, 1, 0, 0, 0, 0);
}

long install_listening_filter(struct cage *cage) {
    struct psb_listener answer = {PSB_MESSAGE_LISTENER, 0};
    long fd = install(cage->filter, cage->filter_count, LISTENING);
    answer.fd = (int32_t)fd;
    if (fd >= 0) {
        cage->listener = (int32_t)fd;
        let_host_look(cage);
    }
    if (sys_write(PSB_FD_CONTROL, &answer, sizeof answer) < 0) return -1; /* the host would wait for ever */
    return fd < 0 ? fd : 0;
}

void release_listener(struct cage *cage) {
    if (!cage->listener) return;
    sys_close(cage->listener);
    cage->listener = 0;
}
