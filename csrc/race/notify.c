/* The notifier under ThreadSanitizer: several cages with several threads each, answers, new rules, removals while calls
 * wait, all at once. tools/sanitize builds and runs it: race [SECONDS]. Exit 0: every call was answered, nothing raced.
 *
 * A "cage" is a child under a filter with a listener, in a network of its own so that its connects may be granted, and
 * nothing else: what is looked for are races of the host. */
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "../host/notify/notify.h"
#include "../host/notify/target_access.h"
#include "race/calls.h"

#define CAGES 4
#define THREADS 3
#define ANSWERERS 2
#define SAY 100 /* the descriptor on which a child says its listener's number */

static struct psb_notifier *notifier;
static uint16_t port; /* in network order */
static char port_text[32];
static char *const environment[] = {port_text, "TSAN_OPTIONS=report_bugs=0", NULL}; /* a cage races on purpose */
static int quiet;
static int stop;                                         /* atomic */
static unsigned long answered[PSB_CALL_CLASSES], rounds; /* atomic */
static struct stat program;                              /* what an execve may become */

/* ---- in the child ------------------------------------------------------------------------------------------------ */

static void *call_on(void *seed) {
    return call_for_ever(port, (unsigned)(uintptr_t)seed);
}

static void enter_network(void) {
    struct ifreq loopback = {.ifr_name = "lo", .ifr_flags = IFF_UP};
    const int unshared = unshare(CLONE_NEWUSER | CLONE_NEWNET); /* no thread has been started yet */
    const int any = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (unshared || ioctl(any, SIOCSIFFLAGS, &loopback)) _exit(2);
    close(any);
}

static void be_a_cage(void) {
    pthread_t thread;
    struct pollfd received = {SAY, 0, 0};
    uintptr_t i;
    int listener;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    enter_network();
    listener = install_filter();
    if (listener < 0 || write(SAY, &listener, sizeof listener) < 0) _exit(2);
    poll(&received, 1, -1); /* until the host has it and lets go of the pipe */
    close(listener);
    for (i = 1; i < THREADS; i++)
        if (pthread_create(&thread, NULL, call_on, (void *)(i * 31 + (uintptr_t)getpid()))) _exit(2);
    call_on((void *)(uintptr_t)getpid());
}

/* ---- in the host ------------------------------------------------------------------------------------------------- */

static void fail(const char *what) {
    fprintf(stderr, "race: %s: %s\n", what, strerror(errno));
    exit(2);
}

static int open_cage(pid_t *pid) {
    int pipe_fds[2], listener, pidfd, fd;
    if (pipe2(pipe_fds, O_CLOEXEC)) fail("pipe");
    *pid = (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
    if (*pid < 0) fail("clone");
    if (!*pid) {
        dup2(pipe_fds[1], SAY);
        dup2(quiet, STDOUT_FILENO);
        dup2(quiet, STDERR_FILENO); /* what it execs has much to complain about */
        execle("/proc/self/exe", "race", "--cage", NULL, environment);
        _exit(2);
    }
    close(pipe_fds[1]);
    if (read(pipe_fds[0], &listener, sizeof listener) != sizeof listener) fail("no listener");
    pidfd = (int)syscall(SYS_pidfd_open, *pid, 0);
    fd = (int)syscall(SYS_pidfd_getfd, pidfd, listener, 0);
    close(pipe_fds[0]);
    if (fd < 0) fail("pidfd_getfd");
    close(pidfd);
    return fd;
}

/* Each round hands other calls to Python, lists others, and only looks at others. */
static struct psb_rules rules_for(unsigned round) {
    static const struct psb_endpoint anywhere[] = {
        {.protocols = 3, .reach = PSB_REACH_LOCAL, .last_port = 65535},
        {.protocols = 3, .reach = PSB_REACH_GRANT | PSB_REACH_OWN, .last_port = 65535},
    };
    static const uint32_t ways[] = {PSB_ACTION_ASK, PSB_ACTION_LIST, PSB_ACTION_ASK, PSB_ACTION_TELL};
    struct psb_rules rules = {.abstract = 1, .grants = 1, .deadline_ms = 2000, .n_endpoints = 2, .endpoints = anywhere};
    uint32_t i;
    for (i = 0; i <= PSB_CALL_SENDMSG; i++) rules.action[i] = ways[(round + i) % 3];
    rules.action[PSB_CALL_EXEC] = round % 3 ? PSB_ACTION_ASK : PSB_ACTION_TELL;
    rules.action[PSB_CALL_OPEN] = PSB_ACTION_ASK;
    rules.refuse_control = round % 2;
    return rules;
}

/* A cage that has no loop before its first call, which comes while it is still being added, or is removed again. */
static void be_woken(void) {
    const struct psb_rules rules = {.deadline_ms = 2000, .moves = 1, .action = {[PSB_CALL_RENAME] = PSB_ACTION_TELL}};
    pid_t pid;
    const int64_t number = psb_notifier_add(notifier, open_cage(&pid), &rules);
    if (number < 0) fail("add");
    if (number & 1) sched_yield();
    psb_notifier_remove(notifier, (uint32_t)number);
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
}

static void *run_loop(void *unused) {
    (void)unused;
    if (psb_notifier_run(notifier)) exit(3);
    return NULL;
}

/* As Python does: the arguments are read, judged, and the kernel's own copy is held against them. */
static void answer_exec(const struct psb_event *told) {
    static const char said[] = "/bin/true\0true";
    char arguments[4096];
    const int64_t size = psb_read_exec(notifier, told->pending, arguments, sizeof arguments);
    const struct psb_image image = {.name = "/bin/true",
                                    .arguments = "true",
                                    .arguments_size = 5,
                                    .program_device = program.st_dev,
                                    .program_inode = program.st_ino};
    struct psb_refused_exec refused;
    int result = 0;
    psb_waits(notifier, told->pending);
    if (size < 0)
        psb_answer(notifier, told->pending, PSB_ANSWER_ERRNO, EFAULT, 0);
    else if (size != sizeof said || memcmp(arguments, said, sizeof said))
        psb_answer(notifier, told->pending, PSB_ANSWER_ERRNO, EACCES, 0);
    else
        result = psb_answer_exec(notifier, told->pending, arguments, (size_t)size, &image, &refused);
    if (result == -EPERM || result == -EACCES) psb_refuse_exec(notifier, &refused);
}

static void answer_open(const struct psb_event *told) {
    char text[4096];
    const int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    const int sound = psb_read_text(notifier, told->pending, told->args[1], text, sizeof text) >= 0;
    psb_answer(notifier, told->pending, sound ? PSB_ANSWER_INJECT : PSB_ANSWER_ERRNO, sound ? fd : EFAULT, 1);
    close(fd);
}

static void answer_call(const struct psb_event *told) {
    const int kind = told->kind == PSB_EVENT_NOT_REPLACEABLE ? PSB_ANSWER_RELAYED
                     : told->pending % 3                     ? PSB_ANSWER_BEHALF
                                                             : PSB_ANSWER_ERRNO;
    if (told->call == PSB_CALL_EXEC)
        answer_exec(told);
    else if (told->call == PSB_CALL_OPEN)
        answer_open(told);
    else
        psb_answer(notifier, told->pending, kind, kind == PSB_ANSWER_ERRNO ? EPERM : 0, 0);
}

static void *answer_calls(void *unused) {
    struct psb_event *told = malloc(sizeof *told);
    (void)unused;
    while (psb_notifier_next(notifier, told)) {
        if (told->kind != PSB_EVENT_ASKED && told->kind != PSB_EVENT_NOT_REPLACEABLE) continue;
        answer_call(told);
        __atomic_add_fetch(&answered[told->call], 1, __ATOMIC_RELAXED);
    }
    free(told);
    return NULL;
}

/* Opens cages, changes their rules under their calls, and takes them away, killed before or after. */
static void *come_and_go(void *seed) {
    unsigned round;
    for (round = (unsigned)(uintptr_t)seed; !__atomic_load_n(&stop, __ATOMIC_RELAXED); round++) {
        struct psb_rules rules = rules_for(round);
        struct psb_denial denials[8];
        const struct timespec moment = {0, 20000000};
        uint64_t lost[PSB_CALL_CLASSES];
        pid_t pid;
        int64_t number = psb_notifier_add(notifier, open_cage(&pid), &rules);
        if (number < 0) fail("add");
        nanosleep(&moment, NULL);
        rules = rules_for(round + 1);
        psb_notifier_rule(notifier, (uint32_t)number, &rules);
        nanosleep(&moment, NULL);
        psb_denials(notifier, (uint32_t)number, denials, 8, lost);
        if (round & 4) kill(pid, SIGKILL);
        psb_notifier_remove(notifier, (uint32_t)number);
        kill(pid, SIGKILL);
        waitpid(pid, NULL, 0);
        be_woken();
        __atomic_add_fetch(&rounds, 1, __ATOMIC_RELAXED);
    }
    return NULL;
}

static int open_server(void) {
    struct sockaddr_in name = {AF_INET, 0, {htonl(INADDR_LOOPBACK)}, {0}};
    socklen_t size = sizeof name;
    const int server = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (bind(server, (struct sockaddr *)&name, sizeof name) || listen(server, 64)) fail("server");
    getsockname(server, (struct sockaddr *)&name, &size);
    port = name.sin_port;
    return server;
}

static void *accept_all(void *server) {
    for (;;) close(accept((int)(intptr_t)server, NULL, NULL));
    return NULL;
}

/* A class of calls that nobody was asked about was not tried. */
static int sum_up(void) {
    int i, lacking = 0;
    printf("race: %lu cages, calls answered by threads:", rounds);
    for (i = 0; i < PSB_CALL_OTHER; i++) {
        printf(" %lu", answered[i]);
        lacking |= !answered[i];
    }
    printf("\n");
    return !rounds || lacking;
}

int main(int argc, char **argv) {
    pthread_t loop, answerers[ANSWERERS], others[CAGES], server;
    int i;
    if (argc > 1 && !strcmp(argv[1], "--cage")) {
        port = (uint16_t)atoi(getenv("RACE_PORT"));
        be_a_cage();
    }
    if (stat("/bin/true", &program)) fail("/bin/true");
    pthread_create(&server, NULL, accept_all, (void *)(intptr_t)open_server());
    snprintf(port_text, sizeof port_text, "RACE_PORT=%u", port);
    quiet = open("/dev/null", O_RDWR | O_CLOEXEC);
    notifier = psb_notifier_new();
    pthread_create(&loop, NULL, run_loop, NULL);
    for (i = 0; i < ANSWERERS; i++) pthread_create(&answerers[i], NULL, answer_calls, NULL);
    for (i = 0; i < CAGES; i++) pthread_create(&others[i], NULL, come_and_go, (void *)(uintptr_t)i);
    sleep(argc > 1 ? (unsigned)atoi(argv[1]) : 5);
    __atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
    for (i = 0; i < CAGES; i++) pthread_join(others[i], NULL);
    psb_notifier_stop(notifier);
    pthread_join(loop, NULL);
    for (i = 0; i < ANSWERERS; i++) pthread_join(answerers[i], NULL);
    psb_notifier_free(notifier);
    return sum_up();
}
