/* A command's system-call filter (seccomp(2)): the last thing before exec, and never loosened after.
 *
 * With a listener the filter is one for the whole cage. A copy of the listener that stays in the cage would keep calls
 * waiting after the host has died, so cage-init holds its own only until the host has taken it. */
#include <linux/seccomp.h>
#include <sys/prctl.h>

#include "init.h"

#ifndef SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV
#define SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV                                                                         \
    (1UL << 5) /* Linux 5.19: a timer must not repeat a call that is decided */
#endif
#define LISTENING (SECCOMP_FILTER_FLAG_NEW_LISTENER | SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV)

struct filter_program {
    uint16_t length;
    const struct bpf_instruction *instructions;
};

static long install(const struct cage *cage, unsigned long flags) {
    struct filter_program program = {(uint16_t)cage->filter_count, cage->filter};
    return sys_call(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &program, 0, 0, 0);
}

long install_filter(const struct cage *cage) {
    return cage->filter_count ? install(cage, 0) : 0;
}

/* Without a user namespace the host may look only into a dumpable process: it takes the listener, and reads the command
 * that is about to be executed. The cage's processes may not: Landlock lets no one trace out of its domain. */
static void let_host_look(const struct cage *cage) {
    if (cage->flags & PSB_SETUP_SUBREAPER) sys_call(SYS_prctl, PR_SET_DUMPABLE, 1, 0, 0, 0, 0);
}

long install_listening_filter(struct cage *cage) {
    struct psb_listener answer = {PSB_MESSAGE_LISTENER, 0};
    long fd = install(cage, LISTENING);
    answer.fd = (int32_t)fd;
    if (fd >= 0) {
        cage->listener = (int32_t)fd;
        let_host_look(cage);
    }
    sys_write(PSB_FD_CONTROL, &answer, sizeof answer);
    return fd < 0 ? fd : 0;
}

void release_listener(struct cage *cage) {
    if (!cage->listener) return;
    sys_close(cage->listener);
    cage->listener = 0;
}
