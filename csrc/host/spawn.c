/* Starting a cage from the host: one vfork-style clone, whatever the host's size, from any thread.
 *
 * fork would copy the host's page tables (38 us a resident MB) and carry its memory into the cage; this shares it for
 * the time of the setup and leaves it at exec. The child gets a stack of its own, every signal blocked, and only what
 * was prepared here. Exit signal 0: a setup that fails never shows up in the host's own wait() or SIGCHLD handling. The
 * exec of cage-init makes it SIGCHLD (as every execve does), so from then on another wait of the host, or its ignoring
 * SIGCHLD, may collect the child first: the pidfd tells when it has ended, whoever collects it. */
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../setup/setup.h"
#include "clone3.h"
#include "errand.h"
#include "passage.h"
#include "passing.h"
#include "powers.h"
#include "spawn.h"

#define STACK_SIZE (96 * 1024)
#define GUARD_SIZE 4096

/* A child leaves its stack by exec or exit, never by returning: AddressSanitizer still sees its frames there, and would
 * take the next stack at the same address for a use of them. */
#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#else
#define ASAN_UNPOISON_MEMORY_REGION(at, size) ((void)(at), (void)(size))
#endif

int psb_send(int control, const void *message, size_t size, const int *fds, size_t n_fds) {
    union {
        char bytes[CMSG_SPACE((PSB_MAX_FDS + 3) * sizeof(int))];
        struct cmsghdr rights;
    } control_data;
    struct iovec vector = {(void *)(uintptr_t)message, size};
    struct msghdr header = {.msg_iov = &vector, .msg_iovlen = 1};
    ssize_t sent;
    if (n_fds > PSB_MAX_FDS + 3) return -EINVAL;
    if (n_fds) {
        struct cmsghdr *rights = &control_data.rights;
        header.msg_control = control_data.bytes;
        header.msg_controllen = CMSG_SPACE(n_fds * sizeof(int));
        rights->cmsg_level = SOL_SOCKET;
        rights->cmsg_type = SCM_RIGHTS;
        rights->cmsg_len = CMSG_LEN(n_fds * sizeof(int));
        memcpy(CMSG_DATA(rights), fds, n_fds * sizeof(int));
    }
    sent = send_descriptors(control, &header);
    return sent < 0 ? -errno : 0;
}

void psb_nudge(int control) {
    const uint32_t kind = PSB_MESSAGE_NUDGE;
    if (send(control, &kind, sizeof kind, MSG_NOSIGNAL | MSG_DONTWAIT) < 0) errno = 0; /* the order will tell */
}

int psb_take_listener(int control, int pidfd) {
    struct psb_listener answer;
    ssize_t got = recv(control, &answer, sizeof answer, 0);
    int fd;
    if (got < 0) return -errno;
    if (got != sizeof answer || answer.kind != PSB_MESSAGE_LISTENER) return -ECONNRESET; /* it is dead */
    if (answer.fd < 0) return answer.fd;
    fd = (int)syscall(SYS_pidfd_getfd, pidfd, answer.fd, 0);
    return fd < 0 ? -errno : fd;
}

int psb_read_report(int fd, struct psb_report *report) {
    ssize_t got = read(fd, report, sizeof *report);
    if (got < 0) return -errno;
    if (got == 0) return 0;
    return got == sizeof *report ? 1 : -EBADMSG;
}

int psb_open_inside(int root_fd, const char *path, uint64_t flags, uint64_t mode, uint64_t resolve) {
    struct open_how how = {.flags = flags | O_CLOEXEC, .mode = mode, .resolve = resolve};
    long fd = syscall(SYS_openat2, root_fd, path, &how, sizeof how);
    return fd < 0 ? -errno : (int)fd;
}

#ifndef PSB_ABI
#define PSB_ABI "unknown" /* built by hand: CMakeLists.txt says what it is */
#endif

const char *psb_abi(void) {
    return PSB_ABI;
}

/* What a thread cannot get back it goes on without, and the caller hears of it: it never opens more than it should. */
int psb_open_powerless(int root_fd, const char *path, uint64_t flags, uint64_t mode, uint64_t resolve, uint32_t user) {
    struct powers powers;
    int result = lower_powers(&powers, NO_POWERS, user), restored;
    if (result) return result;
    result = psb_open_inside(root_fd, path, flags, mode, resolve);
    restored = restore_powers(&powers);
    if (!restored) return result;
    if (result >= 0) close(result);
    return restored;
}

const char *psb_step_name(int step) {
    static const char *const names[] = {
#define PSB_STEP(name, text) text,
#include "../steps.def"
#undef PSB_STEP
    };
    return step >= 0 && step < PSB_STEP_COUNT ? names[step] : NULL;
}

static int run_child(void *argument) {
    set_up_and_become_init(argument);
    sys_exit(127);
}

/* Blocked in the child from its first instruction on, restored here after. */
static void block_signals(sigset_t *before) {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, before);
}

static long clone_onto(char *stack, struct psb_launch *launch, int *pidfd, int more) {
    const int flags = CLONE_VM | CLONE_VFORK | CLONE_PIDFD | more | (int)launch->plan->namespaces,
              cgroup = launch->plan->cgroup_fd;
    long pid;
    if (cgroup >= 0) return clone_into_cgroup((unsigned)flags, cgroup, stack, STACK_SIZE, run_child, launch, pidfd);
    pid = clone(run_child, stack + STACK_SIZE, flags, launch, pidfd);
    return pid < 0 ? -errno : pid;
}

/* By way of a child that is still root: passage.c. It has the host's descriptor table, so that the pidfd is the host's,
 * and the trees are the host's to close; the cage is the host's child (CLONE_PARENT). */
struct passage {
    struct psb_launch *launch;
    int *trees;
    char *stack;
    int *pidfd;
    long pid; /* -ESRCH: none came of it */
};

static void pass(void *argument) {
    struct passage *passage = argument;
    struct psb_launch *launch = passage->launch;
    if (take_trees(launch->plan, passage->trees, &launch->error)) return;
    launch->init_fd = take_init(launch->plan, launch->init_fd, passage->trees);
    if (become_nobody(&launch->error)) return;
    passage->pid = clone_onto(passage->stack, launch, passage->pidfd, CLONE_PARENT);
}

/* A child that was killed while it waited for the cage has told nothing of it but the pidfd. */
static long end_nameless(int pidfd) {
    siginfo_t ignored;
    int tries = 0;
    if (pidfd < 0) return -ESRCH;
    syscall(SYS_pidfd_send_signal, pidfd, SIGKILL, NULL, 0);
    while (waitid(P_PIDFD, (id_t)pidfd, &ignored, WEXITED | __WALL) < 0 && errno == EINTR && tries++ < 64) {}
    close(pidfd);
    return -ESRCH;
}

static long clone_by_passage(char *stack, struct psb_launch *launch, int *pidfd) {
    struct passage passage = {.launch = launch, .stack = stack, .pidfd = pidfd, .pid = -ESRCH};
    long result;
    launch->trees = passage.trees = new_trees(launch->plan);
    if (!passage.trees) return -ENOMEM;
    result = run_errand(CLONE_FILES, pass, &passage);
    free_trees(passage.trees, launch->plan);
    if (result < 0) return result;
    return passage.pid == -ESRCH ? end_nameless(*pidfd) : passage.pid;
}

static int clone_child(struct psb_launch *launch, struct psb_opened *opened) {
    char *stack = mmap(NULL, STACK_SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
    sigset_t before;
    int pidfd = -1;
    long pid;
    if (stack == MAP_FAILED) return fail(&opened->error, PSB_STEP_CLONE, -errno, "stack");
    mprotect(stack, GUARD_SIZE, PROT_NONE);
    block_signals(&before);
    pid = launch->plan->unrooted ? clone_by_passage(stack, launch, &pidfd) : clone_onto(stack, launch, &pidfd, 0);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    ASAN_UNPOISON_MEMORY_REGION(stack, STACK_SIZE);
    munmap(stack, STACK_SIZE);
    if (pid < 0 && launch->error.step) opened->error = launch->error;
    if (pid < 0) return launch->error.step ? -1 : fail(&opened->error, PSB_STEP_CLONE, pid, NULL);
    opened->pid = (int32_t)pid;
    opened->pidfd = pidfd;
    return 0;
}

static void reap_failed_child(struct psb_opened *opened) {
    int tries = 0; /* it has ended: only a filter around the host keeps us from collecting it */
    while (waitpid(opened->pid, NULL, __WALL) < 0 && errno != ECHILD && tries++ < 64) {}
    close(opened->pidfd);
    opened->pid = opened->pidfd = -1;
}

int psb_open_cage(const struct psb_plan *plan, int init_fd, struct psb_opened *opened) {
    struct psb_launch launch = {.plan = plan, .init_fd = init_fd, .host_pidfd = -1};
    int pair[2];
    memset(opened, 0, sizeof *opened);
    opened->pid = opened->pidfd = opened->control = -1;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        return fail(&opened->error, PSB_STEP_CONTROL, -errno, "socketpair");
    launch.control_fd = pair[1];
    launch.host_pidfd = (int)syscall(SYS_pidfd_open, getpid(), 0);
    if (launch.host_pidfd < 0)
        fail(&opened->error, PSB_STEP_CONTROL, -errno, "pidfd_open");
    else if (!clone_child(&launch, opened) && (launch.error.step || !launch.armed)) {
        /* Killed before it could say why: by a filter that the host lives under, or for want of memory. */
        if (!launch.error.step) fail(&launch.error, PSB_STEP_INIT_EXEC, -ESRCH, "cage-init");
        reap_failed_child(opened);
        opened->error = launch.error;
    }
    if (launch.host_pidfd >= 0) close(launch.host_pidfd);
    close(pair[1]);
    if (opened->error.step) {
        close(pair[0]);
        return -1;
    }
    opened->control = pair[0];
    return 0;
}
