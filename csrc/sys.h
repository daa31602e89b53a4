/* Raw system calls: no libc, no errno, no locks, no thread-local state.
 *
 * Two kinds of code include this: cage-init, which has no libc, and setup, which runs between clone(CLONE_VM) and
 * execve in the host's memory, where a libc call could take a lock that another host thread holds. Every call returns
 * the kernel's value: negative is -errno. */
#ifndef PSB_SYS_H
#define PSB_SYS_H

#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>

#define PSB_UNUSED __attribute__((unused))

#if defined(__x86_64__)
static inline long sys6(long n, long a, long b, long c, long d, long e, long f) {
    register long r10 __asm__("r10") = d;
    register long r8 __asm__("r8") = e;
    register long r9 __asm__("r9") = f;
    long result;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(n), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                     : "rcx", "r11", "memory");
    return result;
}
#elif defined(__aarch64__)
static inline long sys6(long n, long a, long b, long c, long d, long e, long f) {
    register long x8 __asm__("x8") = n;
    register long x0 __asm__("x0") = a;
    register long x1 __asm__("x1") = b;
    register long x2 __asm__("x2") = c;
    register long x3 __asm__("x3") = d;
    register long x4 __asm__("x4") = e;
    register long x5 __asm__("x5") = f;
    __asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5) : "memory");
    return x0;
}
#else
#error "pysandbox knows x86_64 and aarch64"
#endif

#define SYS_ARG(x) ((long)(x))
#define sys_call(n, a, b, c, d, e, f) sys6((n), SYS_ARG(a), SYS_ARG(b), SYS_ARG(c), SYS_ARG(d), SYS_ARG(e), SYS_ARG(f))

/* Newer than some libc headers we are built with. Numbers are the same on every architecture from 424 on. */
#ifndef SYS_open_tree
#define SYS_open_tree 428
#endif
#ifndef SYS_move_mount
#define SYS_move_mount 429
#endif
#ifndef SYS_pidfd_open
#define SYS_pidfd_open 434
#endif
#ifndef SYS_clone3
#define SYS_clone3 435
#endif
#ifndef SYS_openat2
#define SYS_openat2 437
#endif
#ifndef SYS_close_range
#define SYS_close_range 436
#endif
#ifndef SYS_pidfd_getfd
#define SYS_pidfd_getfd 438
#endif
#ifndef SYS_mount_setattr
#define SYS_mount_setattr 442
#endif
#ifndef SYS_landlock_create_ruleset
#define SYS_landlock_create_ruleset 444
#define SYS_landlock_add_rule 445
#define SYS_landlock_restrict_self 446
#endif

/* libc's <fcntl.h> and the kernel's cannot both be included, so neither is: -100 is AT_FDCWD. */
static inline PSB_UNUSED long sys_open(const char *path, int flags, int mode) {
    return sys_call(SYS_openat, -100, path, flags, mode, 0, 0);
}

static inline PSB_UNUSED long sys_close(int fd) {
    return sys_call(SYS_close, fd, 0, 0, 0, 0, 0);
}

static inline PSB_UNUSED long sys_write(int fd, const void *data, size_t size) {
    return sys_call(SYS_write, fd, data, size, 0, 0, 0);
}

/* A filter that refuses even this leaves a trap instruction as the way to end. */
static inline PSB_UNUSED _Noreturn void sys_exit(int code) {
    sys_call(SYS_exit_group, code, 0, 0, 0, 0, 0);
    for (;;) __builtin_trap();
}

static inline PSB_UNUSED size_t text_length(const char *text) {
    size_t n = 0;
    while (text[n]) n++;
    return n;
}

/* Copies as much as fits and always terminates. Returns the length of the copy. */
static inline PSB_UNUSED size_t text_copy(char *to, size_t room, const char *from) {
    size_t n = 0;
    while (from[n] && n + 1 < room) {
        to[n] = from[n];
        n++;
    }
    to[n] = 0;
    return n;
}

/* Decimal of a number that is never negative where it is used; returns the length. */
static inline PSB_UNUSED size_t text_number(char *to, unsigned long number) {
    char digits[24];
    size_t n = 0, i = 0;
    do digits[n++] = (char)('0' + number % 10);
    while (number /= 10);
    while (n) to[i++] = digits[--n];
    to[i] = 0;
    return i;
}

#endif
