/* The confinement of the inspector and of the reader: Landlock with no rule at all, and a list of calls to which
 * nothing is added later.
 *
 * What is left can read and write descriptors, wait for them, and manage memory. The second wall is needed where the
 * first is too old for something (TCP before ABI 4, signals before ABI 6) or absent; so each refuses alone.
 *
 * Two calls are let through by halves. sendto(2) and sendmsg(2) without MSG_FASTOPEN: with it, a TCP socket that was
 * reset connects once more, to an address of the caller's choice. mmap(2) and mprotect(2) without PROT_EXEC: no code is
 * loaded any more.
 *
 * The reader has the doors of cages as well. It accepts there, duplicates a descriptor, and sets two options by which a
 * connection is sped up or reset; it cannot connect what it has to anywhere else. */
#include "inspector.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#if defined(__x86_64__)
#define PSB_ARCH AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define PSB_ARCH AUDIT_ARCH_AARCH64
#else
#error "this architecture has no filter"
#endif

#define LENGTH(table) (sizeof(table) / sizeof *(table))
#define ANY 0xff /* no argument is looked at */

struct ruleset {
    uint64_t fs, net, scoped;
};

/* By ABI: all that Landlock knows, and nothing allowed. */
static const struct ruleset rulesets[] = {
    {0, 0, 0},      {0x1fff, 0, 0}, {0x3fff, 0, 0}, {0x7fff, 0, 0},
    {0x7fff, 3, 0}, {0xffff, 3, 0}, {0xffff, 3, 3}, {0xffff, 3, 3},
};

/* `forbidden`: bits of the argument at which the call is refused. */
struct allowed {
    uint16_t call;
    uint8_t argument;
    uint32_t forbidden;
};

static const struct allowed calls[] = {
    {__NR_read, ANY, 0},
    {__NR_write, ANY, 0},
    {__NR_recvfrom, ANY, 0},
    {__NR_recvmsg, ANY, 0},
    {__NR_sendto, 3, MSG_FASTOPEN},
    {__NR_sendmsg, 2, MSG_FASTOPEN},
    {__NR_shutdown, ANY, 0},
    {__NR_close, ANY, 0},
    {__NR_lseek, ANY, 0},
    {__NR_fstat, ANY, 0},
    {__NR_getsockopt, ANY, 0},
    {__NR_getsockname, ANY, 0},
    {__NR_getpeername, ANY, 0},
#ifdef __NR_epoll_wait
    {__NR_epoll_wait, ANY, 0},
#endif
    {__NR_epoll_pwait, ANY, 0},
    {__NR_epoll_ctl, ANY, 0},
#ifdef __NR_poll
    {__NR_poll, ANY, 0},
#endif
    {__NR_ppoll, ANY, 0},
    {__NR_mmap, 2, PROT_EXEC},
    {__NR_mprotect, 2, PROT_EXEC},
    {__NR_munmap, ANY, 0},
    {__NR_mremap, ANY, 0},
    {__NR_madvise, ANY, 0},
    {__NR_brk, ANY, 0},
    {__NR_futex, ANY, 0},
    {__NR_sched_yield, ANY, 0},
    {__NR_clock_gettime, ANY, 0},
    {__NR_gettimeofday, ANY, 0},
    {__NR_getrandom, ANY, 0},
    {__NR_getpid, ANY, 0},
    {__NR_gettid, ANY, 0},
    {__NR_rt_sigreturn, ANY, 0},
    {__NR_rt_sigprocmask, ANY, 0},
    {__NR_rt_sigaction, ANY, 0},
    {__NR_restart_syscall, ANY, 0},
    {__NR_exit, ANY, 0},
    {__NR_exit_group, ANY, 0},
};

enum {
    PER_CALL = 5,
    MOST = 4 + PER_CALL * LENGTH(calls) + 24
};

static unsigned argument_low(unsigned index) {
    return (unsigned)offsetof(struct seccomp_data, args) + 8 * index;
}

static size_t one_call(struct sock_filter *out, const struct allowed *each) {
    const struct sock_filter allow = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    if (each->argument == ANY) {
        out[0] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, each->call, 0, 1);
        out[1] = allow;
        return 2;
    }
    out[0] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, each->call, 0, 4);
    out[1] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, argument_low(each->argument));
    out[2] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, each->forbidden, 1, 0);
    out[3] = allow;
    out[4] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM);
    return PER_CALL;
}

static size_t copy_rules(struct sock_filter *out, const struct sock_filter *rules, size_t count) {
    memcpy(out, rules, count * sizeof *rules);
    return count;
}

/* ioctl(2) for FIONBIO alone. Any other call goes on behind the last rule. */
static size_t descriptor_flag_calls(struct sock_filter *out) {
    const struct sock_filter rules[] = {
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_ioctl, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (uint32_t)offsetof(struct seccomp_data, args) + 8),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, FIONBIO, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
    };
    return copy_rules(out, rules, LENGTH(rules));
}

/* accept4(2), fcntl(2) for F_DUPFD_CLOEXEC alone, and setsockopt(2) for SO_LINGER and TCP_NODELAY. Any other call goes
 * on behind the last rule. */
static size_t reader_calls(struct sock_filter *out) {
    const uint32_t second = (uint32_t)offsetof(struct seccomp_data, args) + 8, third = second + 8;
    const struct sock_filter rules[] = {
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_accept4, 11, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_fcntl, 0, 2),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, second),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, F_DUPFD_CLOEXEC, 8, 9),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_setsockopt, 0, 9),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, second),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SOL_SOCKET, 0, 2),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, third),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SO_LINGER, 3, 4),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, IPPROTO_TCP, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, third),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, TCP_NODELAY, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
    };
    return copy_rules(out, rules, LENGTH(rules));
}

static int keep_listed_calls(int reads_doors) {
    struct sock_filter filter[MOST];
    struct sock_fprog program;
    size_t n = 0, i;
    filter[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch));
    filter[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, PSB_ARCH, 1, 0);
    filter[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS);
    filter[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
    for (i = 0; i < LENGTH(calls); i++) n += one_call(filter + n, &calls[i]);
    if (reads_doors) n += reader_calls(filter + n);
    n += descriptor_flag_calls(filter + n);
    program = (struct sock_fprog){(unsigned short)n, filter};
    return syscall(__NR_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program) ? -errno : 0;
}

/* 0 where the kernel has no Landlock: the filter refuses the same. */
static int allow_no_file(void) {
    long ruleset, abi = syscall(__NR_landlock_create_ruleset, NULL, 0, 1 /* LANDLOCK_CREATE_RULESET_VERSION */);
    struct ruleset wanted;
    int result;
    if (abi < 0) return errno == ENOSYS || errno == EOPNOTSUPP ? 0 : -errno;
    wanted = rulesets[abi < (long)LENGTH(rulesets) ? abi : (long)LENGTH(rulesets) - 1];
    ruleset = syscall(__NR_landlock_create_ruleset, &wanted, abi < 4 ? 8 : abi < 6 ? 16 : sizeof wanted, 0);
    if (ruleset < 0) return -errno;
    result = syscall(__NR_landlock_restrict_self, (int)ruleset, 0) ? -errno : 0;
    close((int)ruleset);
    return result;
}

static int confine_for_good(int reads_doors) {
    int result;
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)) return -errno;
    if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)) return -errno; /* nobody of this user reads its memory */
    result = allow_no_file();
    return result ? result : keep_listed_calls(reads_doors);
}

int psb_confine_inspector(void) {
    return confine_for_good(0);
}

/* The thread that started it lives for as long as the doors are served. */
int psb_confine_reader(void) {
    if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0)) return -errno;
    return confine_for_good(1);
}
