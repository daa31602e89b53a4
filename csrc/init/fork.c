/* clone(CLONE_VM) in a program without a libc: the child starts on a stack of its own, so the call cannot return there.
 *
 * Not CLONE_VFORK: that would hold cage-init up until the child execs, and a caged process can keep the child from ever
 * getting there (a loop of kill(-1, SIGSTOP)). cage-init must hear the host's death at every moment. */
#include "../uapi.h"
#include "init.h"

_Noreturn void child_main(struct attempt *attempt) __attribute__((used));
_Noreturn void child_main(struct attempt *attempt) {
    become_command(attempt);
    sys_exit(127);
}

/* The child runs become_command and never returns here. Returns its pid, or -errno. */
long fork_onto(uint8_t *stack, size_t size, struct attempt *attempt) {
    const unsigned long flags = CLONE_VM | SIGCHLD;
    uint64_t *top = (uint64_t *)(stack + size - 16);
    long result;
    top[0] = (uint64_t)(uintptr_t)attempt;
#if defined(__x86_64__)
    register long r10 __asm__("r10") = 0;
    register long r8 __asm__("r8") = 0;
    __asm__ volatile("syscall\n"
                     "test %%rax, %%rax\n"
                     "jnz 1f\n"
                     "xor %%ebp, %%ebp\n"
                     "mov (%%rsp), %%rdi\n"
                     "call child_main\n"
                     "hlt\n"
                     "1:\n"
                     : "=a"(result)
                     : "a"((long)SYS_clone), "D"(flags), "S"(top), "d"(0L), "r"(r10), "r"(r8)
                     : "rcx", "r11", "memory");
#else
    register long x8 __asm__("x8") = SYS_clone;
    register long x0 __asm__("x0") = (long)flags;
    register long x1 __asm__("x1") = (long)top;
    register long x2 __asm__("x2") = 0;
    register long x3 __asm__("x3") = 0;
    register long x4 __asm__("x4") = 0;
    __asm__ volatile("svc 0\n"
                     "cbnz x0, 1f\n"
                     "mov x29, #0\n"
                     "ldr x0, [sp]\n"
                     "bl child_main\n"
                     "brk #0\n"
                     "1:\n"
                     : "+r"(x0)
                     : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4)
                     : "memory", "x30");
    result = x0;
#endif
    return result;
}
