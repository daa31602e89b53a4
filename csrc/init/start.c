/* The entry point: a stack as the ABI wants it, then main.c. */
#include "init.h"

_Noreturn void init_main(void);

#if defined(__x86_64__)
__asm__(".globl _start\n_start:\n xor %ebp, %ebp\n and $-16, %rsp\n call init_main\n hlt\n");
#elif defined(__aarch64__)
__asm__(".globl _start\n_start:\n mov x29, #0\n mov x30, #0\n bl init_main\n brk #0\n");
#endif
