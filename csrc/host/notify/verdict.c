/* A classic BPF program, run as the kernel runs it, for the instructions that compile.bpf makes. Whatever else it meets
 * is a refusal. */
#include "verdict.h"

#include <errno.h>
#include <linux/filter.h>
#include <string.h>

#define REFUSAL (SECCOMP_RET_ERRNO | EPERM)

static int jumps(const struct sock_filter *code, uint32_t held) {
    switch (BPF_OP(code->code)) {
    case BPF_JEQ: return held == code->k;
    case BPF_JGT: return held > code->k;
    case BPF_JGE: return held >= code->k;
    default: return (held & code->k) != 0;
    }
}

/* How many instructions are skipped. */
static uint32_t step(const struct sock_filter *code, const struct seccomp_data *data, uint32_t *held) {
    switch (code->code) {
    case BPF_LD | BPF_W | BPF_ABS:
        if (code->k > sizeof *data - sizeof *held) return UINT32_MAX;
        memcpy(held, (const uint8_t *)data + code->k, sizeof *held);
        return 0;
    case BPF_ALU | BPF_AND | BPF_K: *held &= code->k; return 0;
    case BPF_JMP | BPF_JA: return code->k;
    case BPF_JMP | BPF_JEQ | BPF_K:
    case BPF_JMP | BPF_JGT | BPF_K:
    case BPF_JMP | BPF_JGE | BPF_K:
    case BPF_JMP | BPF_JSET | BPF_K: return jumps(code, *held) ? code->jt : code->jf;
    default: return UINT32_MAX;
    }
}

static uint32_t run(const struct sock_filter *program, uint64_t size, const struct seccomp_data *data) {
    uint32_t held = 0;
    uint64_t at = 0;
    while (at < size) {
        const struct sock_filter *code = &program[at];
        if (code->code == (BPF_RET | BPF_K)) return code->k;
        at += 1 + (uint64_t)step(code, data, &held);
    }
    return REFUSAL;
}

enum verdict verdict_of(const struct psb_rules *rules, const struct seccomp_data *data, int *number) {
    const struct sock_filter *program = (const void *)rules->verdicts;
    const uint32_t word = run(program, rules->verdicts_size / sizeof *program, data);
    const uint32_t action = word & SECCOMP_RET_ACTION_FULL;
    *number = action == SECCOMP_RET_ERRNO || action == SECCOMP_RET_LOG ? (int)(word & SECCOMP_RET_DATA) : EPERM;
    if (action == SECCOMP_RET_ALLOW || action == SECCOMP_RET_USER_NOTIF) return VERDICT_ALLOWED;
    return action == SECCOMP_RET_LOG ? VERDICT_REFUSED : VERDICT_NEVER;
}
