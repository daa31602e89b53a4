/* A command's system-call filter (seccomp(2)): the last thing before exec, and never loosened after. */
#include <linux/seccomp.h>

#include "init.h"

struct filter_program {
    uint16_t length;
    const struct bpf_instruction *instructions;
};

long install_filter(const struct cage *cage) {
    struct filter_program program = {(uint16_t)cage->filter_count, cage->filter};
    if (!cage->filter_count) return 0;
    return sys_call(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program, 0, 0, 0);
}
