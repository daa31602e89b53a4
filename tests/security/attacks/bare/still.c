/* A command that needs no call but execve to start, and next to none after: without arguments it exits with 7 (or is
 * ended by a trap where it may not), with one it sleeps and goes on sleeping. Built without a libc, so that what a filter lacks is missed by cage-init, not by it. */
#include <sys/syscall.h>

#if defined(__x86_64__)
static long call(long number, long a, long b) {
    long result;
    __asm__ volatile("syscall" : "=a"(result) : "a"(number), "D"(a), "S"(b), "d"(0) : "rcx", "r11", "memory");
    return result;
}
__asm__(".globl _start\n_start:\n mov (%rsp), %rdi\n and $-16, %rsp\n call run\n");
#else
static long call(long number, long a, long b) {
    register long x8 __asm__("x8") = number;
    register long x0 __asm__("x0") = a;
    register long x1 __asm__("x1") = b;
    __asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1) : "memory");
    return x0;
}
__asm__(".globl _start\n_start:\n ldr x0, [sp]\n bl run\n");
#endif

_Noreturn void run(long count) __attribute__((used));
_Noreturn void run(long count) {
    static const long hour[2] = {3600, 0};
    while (count > 1) call(SYS_nanosleep, (long)hour, 0);
    call(SYS_exit_group, 7, 0);
    call(SYS_exit, 7, 0);
    for (;;) __builtin_trap(); /* where both are refused */
}
