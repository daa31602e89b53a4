/* One function for each thing that is done on behalf or decided, with arguments that another thread is rewriting: an
 * address, a path, a list of arguments. What a call returns is nobody's concern here. */
#include "race/calls.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

static const int asked[] = {SYS_connect,  SYS_bind,   SYS_listen,   SYS_sendto, SYS_sendmsg,
                            SYS_sendmmsg, SYS_execve, SYS_execveat, SYS_openat};
#define ASKED (sizeof asked / sizeof *asked)

struct caller {
    unsigned dice;
    uint16_t port;
    int pair[2];
};

/* Written by all threads of a cage while the supervisor reads them. */
static char path[64] = "/nowhere/at/all", one[32] = "one", two[32] = "two";
static char *volatile arguments[8] = {one, two, NULL};

int install_filter(void) {
    struct sock_filter code[ASKED + 3];
    const struct sock_fprog program = {ASKED + 3, code};
    size_t i;
    code[0] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
    for (i = 0; i < ASKED; i++)
        code[i + 1] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, asked[i], (uint8_t)(ASKED - i), 0);
    code[ASKED + 1] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    code[ASKED + 2] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF);
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    return (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER,
                        SECCOMP_FILTER_FLAG_NEW_LISTENER | SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV, &program);
}

static struct sockaddr_in loopback(uint16_t port) {
    return (struct sockaddr_in){AF_INET, port, {htonl(INADDR_LOOPBACK)}, {0}};
}

static void connects(struct caller *caller) {
    const struct sockaddr_in to = loopback(caller->port);
    const int s = socket(AF_INET, SOCK_STREAM, 0);
    connect(s, (const struct sockaddr *)&to, sizeof to);
    close(s);
}

/* What stands for any host outside (RFC 5737): its socket is replaced by one of the host's network, if it is not
 * shared. What is asked of the host is what it does before that. */
static void connects_outside(struct caller *caller) {
    const struct sockaddr_in to = {AF_INET, caller->port, {htonl(0xc0000202)}, {0}};
    const int s = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    const int same = rand_r(&caller->dice) % 2 ? dup(s) : -1;
    connect(s, (const struct sockaddr *)&to, sizeof to);
    if (same >= 0) close(same);
    close(s);
}

static void connects_to_a_path(struct caller *caller) {
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    const int s = socket(AF_UNIX, SOCK_STREAM, 0);
    (void)caller;
    memcpy(to.sun_path, "/nowhere", 9);
    connect(s, (const struct sockaddr *)&to, sizeof to);
    close(s);
}

static void serves(struct caller *caller) {
    const struct sockaddr_in any = loopback(0);
    const int s = socket(AF_INET, SOCK_STREAM, 0);
    (void)caller;
    bind(s, (const struct sockaddr *)&any, sizeof any);
    listen(s, 1);
    close(s);
}

static void sends_to(struct caller *caller) {
    const struct sockaddr_in to = loopback(caller->port);
    const int s = socket(AF_INET, SOCK_DGRAM, 0);
    sendto(s, path, sizeof path, MSG_DONTWAIT, (const struct sockaddr *)&to, sizeof to);
    close(s);
}

/* Sometimes with a descriptor, sometimes as one of two messages. */
static void sends_a_message(struct caller *caller) {
    union {
        struct cmsghdr header;
        char room[CMSG_SPACE(sizeof(int))];
    } control = {.header = {CMSG_LEN(sizeof(int)), SOL_SOCKET, SCM_RIGHTS}};
    struct iovec data[2] = {{path, sizeof path}, {one, sizeof one}};
    struct mmsghdr messages[2] = {{.msg_hdr = {.msg_iov = data, .msg_iovlen = 2}},
                                  {.msg_hdr = {.msg_iov = data, .msg_iovlen = 1}}};
    char byte[128];
    if (rand_r(&caller->dice) % 2)
        messages[0].msg_hdr.msg_control = &control, messages[0].msg_hdr.msg_controllen = sizeof control;
    if (rand_r(&caller->dice) % 2)
        sendmsg(caller->pair[0], &messages[0].msg_hdr, MSG_DONTWAIT);
    else
        sendmmsg(caller->pair[0], messages, 2, MSG_DONTWAIT);
    while (recv(caller->pair[1], byte, sizeof byte, MSG_DONTWAIT) > 0) continue;
}

static void asks_netlink(struct caller *caller) {
    struct {
        struct nlmsghdr header;
        struct rtgenmsg body;
    } question = {{sizeof question, RTM_GETLINK, NLM_F_REQUEST | NLM_F_DUMP, 1, 0}, {AF_UNSPEC}};
    const struct sockaddr_nl kernel = {.nl_family = AF_NETLINK};
    const int s = socket(AF_NETLINK, SOCK_RAW, NETLINK_ROUTE);
    if (rand_r(&caller->dice) % 4 == 0) question.header.nlmsg_type = RTM_NEWLINK;
    bind(s, (const struct sockaddr *)&kernel, sizeof kernel);
    sendto(s, &question, sizeof question, 0, (const struct sockaddr *)&kernel, sizeof kernel);
    close(s);
}

static void opens(struct caller *caller) {
    const int fd = open(rand_r(&caller->dice) % 2 ? path : "/dev/null", O_RDONLY | O_CLOEXEC);
    if (fd >= 0) close(fd);
}

static void execs_what_changes(struct caller *caller) {
    static char *const none[] = {NULL};
    path[1] = rand_r(&caller->dice) % 2 ? 'n' : 'm';
    one[0] = rand_r(&caller->dice) % 2 ? 'o' : 0;
    arguments[1] = rand_r(&caller->dice) % 2 ? two : (char *)8;
    if (rand_r(&caller->dice) % 2)
        syscall(SYS_execve, path, arguments, none);
    else
        syscall(SYS_execveat, AT_FDCWD, path, arguments, none, 0);
}

/* Sometimes of a thread, whose siblings end with it: the cage is another program then, and soon none. */
static void execs(struct caller *caller) {
    static char *const argv[] = {"true", NULL};
    const pid_t child = rand_r(&caller->dice) % 16 ? fork() : 0;
    if (child > 0) waitpid(child, NULL, 0);
    if (child) return;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    execv("/bin/true", argv);
    _exit(0);
}

void *call_for_ever(uint16_t port, unsigned seed) {
    static void (*const calls[])(struct caller *) = {connects,
                                                     connects_outside,
                                                     connects_outside,
                                                     connects_to_a_path,
                                                     serves,
                                                     sends_to,
                                                     sends_a_message,
                                                     asks_netlink,
                                                     opens,
                                                     execs_what_changes,
                                                     execs};
    struct caller caller = {.dice = seed, .port = port};
    if (socketpair(AF_UNIX, SOCK_DGRAM, 0, caller.pair)) _exit(2);
    for (;;) calls[(size_t)rand_r(&caller.dice) % (sizeof calls / sizeof *calls)](&caller);
    return NULL;
}
