/* The notifier under ThreadSanitizer: several cages with several threads each, answers, new rules, removals while calls
 * wait, all at once. tools/sanitize builds and runs it: race [SECONDS]. Exit 0: every call was answered, nothing raced.
 *
 * A "cage" is a child under a filter with a listener and nothing else: what is looked for are races of the host. */
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "host/notify.h"

#define CAGES 4
#define THREADS 3
#define ANSWERERS 2
#define SAY 100 /* the descriptor on which a child says its listener's number */

static struct psb_notifier *notifier;
static uint16_t port; /* in network order */
static int stop;      /* atomic */
static unsigned long answered, rounds;

/* ---- in the child ------------------------------------------------------------------------------------------------ */

static void *call_on(void *unused) {
    const struct sockaddr_in to = {AF_INET, port, {htonl(INADDR_LOOPBACK)}, {0}};
    char byte[64] = {0};
    int pair[2];
    (void)unused;
    if (socketpair(AF_UNIX, SOCK_DGRAM, 0, pair)) _exit(2);
    for (;;) {
        struct iovec data = {byte, sizeof byte};
        struct msghdr message = {.msg_iov = &data, .msg_iovlen = 1};
        const int s = socket(AF_INET, SOCK_STREAM, 0);
        connect(s, (const struct sockaddr *)&to, sizeof to);
        close(s);
        if (sendmsg(pair[0], &message, 0) == sizeof byte && recv(pair[1], byte, sizeof byte, 0) < 0) _exit(2);
    }
    return NULL;
}

static int install_filter(void) {
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_connect, 1, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_sendmsg, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    const struct sock_fprog program = {sizeof code / sizeof *code, code};
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    return (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER,
                        SECCOMP_FILTER_FLAG_NEW_LISTENER | SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV, &program);
}

static void be_a_cage(void) {
    pthread_t thread;
    int i, listener;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    listener = install_filter();
    if (listener < 0 || write(SAY, &listener, sizeof listener) < 0) _exit(2);
    for (i = 1; i < THREADS; i++)
        if (pthread_create(&thread, NULL, call_on, NULL)) _exit(2);
    call_on(NULL);
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
        execl("/proc/self/exe", "race", "--cage", NULL);
        _exit(2);
    }
    close(pipe_fds[1]);
    if (read(pipe_fds[0], &listener, sizeof listener) != sizeof listener) fail("no listener");
    close(pipe_fds[0]);
    pidfd = (int)syscall(SYS_pidfd_open, *pid, 0);
    fd = (int)syscall(SYS_pidfd_getfd, pidfd, listener, 0);
    if (fd < 0) fail("pidfd_getfd");
    close(pidfd);
    return fd;
}

static struct psb_rules rules_for(int asks) {
    static const struct psb_endpoint anywhere = {.protocols = 3, .ways = PSB_WAY_LOCAL, .last_port = 65535};
    struct psb_rules rules = {.abstract = 1, .deadline_ms = 2000, .n_endpoints = 1, .endpoints = &anywhere};
    rules.action[PSB_CALL_CONNECT] = asks ? PSB_ACTION_ASK : PSB_ACTION_LIST;
    rules.action[PSB_CALL_SENDMSG] = PSB_ACTION_LIST;
    return rules;
}

static void *run_loop(void *unused) {
    (void)unused;
    if (psb_notifier_run(notifier)) exit(3);
    return NULL;
}

static void *answer_calls(void *unused) {
    struct psb_told *told = malloc(sizeof *told);
    (void)unused;
    while (psb_notifier_next(notifier, told)) {
        if (told->kind != PSB_TOLD_ASKED) continue;
        psb_waits(notifier, told->ticket);
        psb_answer(notifier, told->ticket, told->ticket % 3 ? PSB_ANSWER_BEHALF : PSB_ANSWER_ERRNO, EPERM, 0);
        __atomic_add_fetch(&answered, 1, __ATOMIC_RELAXED);
    }
    free(told);
    return NULL;
}

/* Opens cages, changes their rules under their calls, and takes them away, killed before or after. */
static void *come_and_go(void *seed) {
    unsigned round;
    for (round = (unsigned)(uintptr_t)seed; !__atomic_load_n(&stop, __ATOMIC_RELAXED); round++) {
        struct psb_rules rules = rules_for(round % 2);
        struct psb_denial denials[8];
        const struct timespec moment = {0, 20000000};
        uint64_t lost;
        pid_t pid;
        int64_t number = psb_notifier_add(notifier, open_cage(&pid), &rules);
        if (number < 0) fail("add");
        nanosleep(&moment, NULL);
        rules = rules_for(round % 3 == 0);
        psb_notifier_rule(notifier, (uint32_t)number, &rules);
        nanosleep(&moment, NULL);
        psb_denials(notifier, (uint32_t)number, denials, 8, &lost);
        if (round & 4) kill(pid, SIGKILL);
        psb_notifier_remove(notifier, (uint32_t)number);
        kill(pid, SIGKILL);
        waitpid(pid, NULL, 0);
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

int main(int argc, char **argv) {
    pthread_t loop, answerers[ANSWERERS], others[CAGES], server;
    char text[16];
    int i;
    if (argc > 1 && !strcmp(argv[1], "--cage")) {
        port = (uint16_t)atoi(getenv("RACE_PORT"));
        be_a_cage();
    }
    pthread_create(&server, NULL, accept_all, (void *)(intptr_t)open_server());
    snprintf(text, sizeof text, "%u", port);
    setenv("RACE_PORT", text, 1);
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
    printf("race: %lu cages, %lu calls answered by threads\n", rounds, answered);
    return rounds && answered ? 0 : 1;
}
