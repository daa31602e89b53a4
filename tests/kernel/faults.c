/* Runs a host under ptrace and makes one system call of it, or of a cage that it opens, fail.
 *
 *   faults PROGRAM ARG...
 *
 * The host asks by prctl(2) with a number that no kernel knows, and goes on asking as often as it likes:
 *   prctl(MAGIC, ARM, part, n, errno)   from now on calls are counted; the n-th of this part (1 is the first) fails
 *   prctl(MAGIC, COUNT, part)           disarms; how many calls of this part there were
 *   prctl(MAGIC, HIT)                   the number of the call that was made to fail, or -1
 *
 * The parts: the thread that asks; what the host clones, until that execs (setup, a short-lived child); cage-init; its children,
 * until they exec; every other thread of the host. A command runs on untraced. Calls that cannot fail are neither
 * counted nor touched. */
#define _GNU_SOURCE
#include <elf.h>
#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <linux/ptrace.h>
#include <unistd.h>

#define MAGIC 0x50534246
#define OPTIONS                                                                                                        \
    (PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK | PTRACE_O_TRACECLONE | PTRACE_O_TRACEEXEC |     \
     PTRACE_O_EXITKILL)

enum {
    ARM = 1,
    COUNT,
    HIT
};
enum part {
    HOST,
    BORN,
    INIT,
    COMMAND,
    WATCHER,
    PARTS,
    OTHER,
    UNKNOWN
};

struct tracee {
    pid_t id;
    enum part part;
    int waits;    /* it stopped before its parent told of it */
    int answered; /* the call under way is replaced by `answer` */
    long answer;
};

static struct tracee tracees[1024];
static struct {
    int on, part, n, number;
    long hit;
    long counts[PARTS];
} armed = {.hit = -1};

static const long never_fail[] = {
    SYS_close,          SYS_exit,
    SYS_exit_group,     SYS_getpid,
    SYS_gettid,         SYS_getppid,
    SYS_getuid,         SYS_geteuid,
    SYS_getgid,         SYS_getegid,
    SYS_umask,          SYS_rt_sigreturn,
    SYS_rt_sigprocmask, SYS_rt_sigaction,
    SYS_munmap,         SYS_futex,
    SYS_sched_yield,    SYS_set_robust_list,
    SYS_madvise,        SYS_brk,
    SYS_clock_gettime,  SYS_restart_syscall,
    SYS_sigaltstack,    SYS_getrandom,
    SYS_rseq,           SYS_set_tid_address,
};

static struct tracee *find(pid_t id) {
    struct tracee *free_place = NULL;
    for (size_t i = 0; i < sizeof tracees / sizeof *tracees; i++) {
        if (tracees[i].id == id) return &tracees[i];
        if (!tracees[i].id && !free_place) free_place = &tracees[i];
    }
    if (!free_place) abort();
    *free_place = (struct tracee){.id = id, .part = UNKNOWN};
    return free_place;
}

#if defined(__x86_64__)
static void skip_call(pid_t id) {
    ptrace(PTRACE_POKEUSER, id, offsetof(struct user_regs_struct, orig_rax), -1L);
}

static void set_result(pid_t id, long value) {
    ptrace(PTRACE_POKEUSER, id, offsetof(struct user_regs_struct, rax), value);
}
#else
static void skip_call(pid_t id) {
    int none = -1;
    struct iovec vector = {&none, sizeof none};
    ptrace(PTRACE_SETREGSET, id, NT_ARM_SYSTEM_CALL, &vector);
}

static void set_result(pid_t id, long value) {
    struct user_regs_struct registers;
    struct iovec vector = {&registers, sizeof registers};
    ptrace(PTRACE_GETREGSET, id, NT_PRSTATUS, &vector);
    registers.regs[0] = (unsigned long long)value;
    ptrace(PTRACE_SETREGSET, id, NT_PRSTATUS, &vector);
}
#endif

static void answer(struct tracee *tracee, long value) {
    skip_call(tracee->id);
    tracee->answered = 1;
    tracee->answer = value;
}

static void command(struct tracee *tracee, const uint64_t *arguments) {
    const uint64_t part = arguments[2];
    long value = 0;
    if (arguments[1] == ARM) {
        memset(&armed, 0, sizeof armed);
        armed.on = 1, armed.part = (int)part, armed.n = (int)arguments[3], armed.number = (int)arguments[4];
        armed.hit = -1;
        tracee->part = HOST;
    } else if (arguments[1] == COUNT) {
        armed.on = 0;
        value = part < PARTS ? armed.counts[part] : -EINVAL;
    } else
        value = armed.hit;
    answer(tracee, value);
}

static int can_fail(long call) {
    for (size_t i = 0; i < sizeof never_fail / sizeof *never_fail; i++)
        if (never_fail[i] == call) return 0;
    return 1;
}

static void at_entry(struct tracee *tracee, const struct ptrace_syscall_info *info) {
    const long call = (long)info->entry.nr;
    if (call == SYS_prctl && info->entry.args[0] == MAGIC) {
        command(tracee, (const uint64_t *)info->entry.args);
        return;
    }
    if (!armed.on || tracee->part >= PARTS || !can_fail(call)) return;
    /* A thread that cannot have its first memory never says that it began; Thread.start (CPython) waits for it. */
    if (tracee->part == WATCHER && call == SYS_mmap) return;
    if (++armed.counts[tracee->part] != armed.n || (int)tracee->part != armed.part) return;
    armed.hit = call;
    answer(tracee, -armed.number);
}

static void at_call(struct tracee *tracee) {
    struct ptrace_syscall_info info;
    if (ptrace(PTRACE_GET_SYSCALL_INFO, tracee->id, sizeof info, &info) <= 0) return;
    if (info.op == PTRACE_SYSCALL_INFO_ENTRY) at_entry(tracee, &info);
    if (info.op != PTRACE_SYSCALL_INFO_EXIT || !tracee->answered) return;
    set_result(tracee->id, tracee->answer);
    tracee->answered = 0;
}

static int same_process(pid_t one, pid_t other) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/task/%d", one, other);
    return access(path, F_OK) == 0;
}

static enum part part_of_child(const struct tracee *parent, pid_t child) {
    const int of_host = parent->part == HOST || parent->part == WATCHER || parent->part == OTHER;
    if (same_process(parent->id, child)) return of_host ? WATCHER : OTHER;
    if (parent->part == INIT) return COMMAND;
    return of_host ? BORN : OTHER;
}

static void go_on(const struct tracee *tracee, int signal) {
    ptrace(PTRACE_SYSCALL, tracee->id, 0, (long)signal);
}

static void at_birth(struct tracee *parent) {
    unsigned long id = 0;
    struct tracee *child;
    ptrace(PTRACE_GETEVENTMSG, parent->id, 0, &id);
    child = find((pid_t)id);
    child->part = part_of_child(parent, child->id);
    if (child->waits) go_on(child, 0);
    child->waits = 0;
}

/* The host starts programs of its own, too: what they do once they run is not of a start. */
static int is_cage_init(pid_t id) {
    char path[64], program[4096];
    const char name[] = "/cage-init";
    ssize_t size;
    snprintf(path, sizeof path, "/proc/%d/exe", id);
    size = readlink(path, program, sizeof program);
    return size >= (ssize_t)strlen(name) && !memcmp(program + size - strlen(name), name, strlen(name));
}

/* Whether it is let go. */
static int at_exec(struct tracee *tracee) {
    tracee->answered = 0;
    if (tracee->part == BORN) tracee->part = is_cage_init(tracee->id) ? INIT : OTHER;
    if (tracee->part != COMMAND) return 0;
    ptrace(PTRACE_DETACH, tracee->id, 0, 0L);
    tracee->id = 0;
    return 1;
}

static void at_stop(pid_t id, int status) {
    struct tracee *tracee = find(id);
    const int event = status >> 16, signal = WSTOPSIG(status);
    int deliver = 0;
    if (signal == (SIGTRAP | 0x80))
        at_call(tracee);
    else if (event == PTRACE_EVENT_FORK || event == PTRACE_EVENT_VFORK || event == PTRACE_EVENT_CLONE)
        at_birth(tracee);
    else if (event == PTRACE_EVENT_EXEC) {
        if (at_exec(tracee)) return;
    } else if (event == PTRACE_EVENT_STOP) {
        if (tracee->part == UNKNOWN) {
            tracee->waits = 1;
            return;
        }
        if (signal != SIGTRAP) {
            ptrace(PTRACE_LISTEN, id, 0, 0L);
            return;
        }
    } else
        deliver = signal;
    go_on(tracee, deliver);
}

static pid_t start(char **argv) {
    int ready[2];
    char byte;
    pid_t child;
    if (pipe(ready)) abort();
    child = fork();
    if (!child) {
        close(ready[1]);
        if (read(ready[0], &byte, 1) != 1) _exit(1);
        close(ready[0]);
        execvp(argv[0], argv);
        _exit(127);
    }
    if (ptrace(PTRACE_SEIZE, child, 0, OPTIONS)) perror("ptrace"), exit(2);
    find(child)->part = OTHER;
    if (write(ready[1], "x", 1) != 1) abort();
    close(ready[0]), close(ready[1]);
    return child;
}

int main(int argc, char **argv) {
    int status, code = 2;
    pid_t host, id;
    if (argc < 2) return 2;
    host = start(argv + 1);
    while ((id = waitpid(-1, &status, __WALL)) > 0) {
        if (WIFSTOPPED(status)) {
            at_stop(id, status);
            continue;
        }
        find(id)->id = 0;
        if (id == host) code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    }
    return code;
}
