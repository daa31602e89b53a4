/* The inside of a cage's network namespace, reached from the host: its routes, its redirect, and the sockets that the
 * host serves. cage-init has no capability and knows nothing of it: a short-lived child of the host, which owns the
 * cage's user namespace, enters both namespaces and works there; it shares the host's descriptor table, so what it
 * opens is the host's.
 *
 * A socket stays in the namespace it was made in, whoever holds it: that is what makes a door. Everything that comes
 * into being is noted in the host's memory at once, and closed here when any later part fails. */
#include "netns.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netlink.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/socket.h>
#include <unistd.h>

#include "../../setup/setup.h"
#include "../../sys.h"
#include "../spawn/vfork_child.h"

#define HEADERS 68  /* the longest IPv4 header, and one of UDP */
#define ANSWER 1024 /* an acknowledgement is 36 bytes; of a refusal only the beginning is looked at */

struct visit {
    struct psb_inside *wanted;
    int pidfd;
    int netlink; /* the one that is open, or -1 */
    int done;
};

static uint32_t wanted_answers(const char *messages, size_t size) {
    uint32_t count = 0;
    size_t at = 0;
    while (at + sizeof(struct nlmsghdr) <= size) {
        const struct nlmsghdr *header = (const void *)(messages + at);
        if (header->nlmsg_len < sizeof *header) break;
        count += header->nlmsg_flags & NLM_F_ACK ? 1 : 0;
        at += NLMSG_ALIGN(header->nlmsg_len);
    }
    return count;
}

/* One answer: 1 for an acknowledgement, 0 for something else, -errno for a refusal. */
static long read_answer(int fd) {
    char answer[ANSWER] __attribute__((aligned(NLMSG_ALIGNTO)));
    const struct nlmsghdr *header = (const void *)answer;
    const struct nlmsgerr *verdict = NLMSG_DATA(header);
    long got = sys_call(SYS_recvfrom, fd, answer, sizeof answer, MSG_DONTWAIT, 0, 0);
    if (got < 0) return got == -EAGAIN ? -EPROTO : got; /* the kernel answers before it lets the sender go on */
    if (got < (long)NLMSG_LENGTH(sizeof *verdict) || header->nlmsg_type != NLMSG_ERROR) return 0;
    return verdict->error ? verdict->error : 1;
}

/* Up to the end of the first transaction, or all: the kernel reads no more than one from a datagram. */
static size_t first_batch(const char *messages, size_t size) {
    size_t at = 0;
    while (at + sizeof(struct nlmsghdr) <= size) {
        const struct nlmsghdr *header = (const void *)(messages + at);
        if (header->nlmsg_len < sizeof *header) break;
        at += NLMSG_ALIGN(header->nlmsg_len);
        if (header->nlmsg_type == NFNL_MSG_BATCH_END) break;
    }
    return at && at < size ? at : size;
}

static long transact(int fd, const void *messages, size_t size) {
    uint32_t answers = wanted_answers(messages, size);
    long result = sys_call(SYS_sendto, fd, messages, size, 0, 0, 0);
    while (result >= 0 && answers) {
        result = read_answer(fd);
        if (result > 0) answers--;
    }
    return result < 0 ? result : 0;
}

/* `open` tells the caller of the descriptor, should something end this process in between. */
static long tell_kernel(int *open, int protocol, const void *messages, size_t size) {
    long result;
    if (!size) return 0;
    *open = (int)sys_call(SYS_socket, AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, protocol, 0, 0, 0);
    if (*open < 0) return *open;
    do {
        const size_t batch = first_batch(messages, size);
        result = transact(*open, messages, batch);
        messages = (const char *)messages + batch;
        size -= batch;
    } while (result >= 0 && size);
    sys_close(*open);
    *open = -1;
    return result;
}

static long bind_to(int fd, const struct psb_socket *wanted) {
    struct sockaddr_in four = {.sin_family = AF_INET};
    struct sockaddr_in6 six = {.sin6_family = AF_INET6};
    uint16_t port = (uint16_t)(wanted->port >> 8 | wanted->port << 8);
    size_t i;
    if (wanted->family == AF_INET6) {
        six.sin6_port = port;
        for (i = 0; i < sizeof six.sin6_addr; i++) six.sin6_addr.s6_addr[i] = wanted->address[i];
        return sys_call(SYS_bind, fd, &six, sizeof six, 0, 0, 0);
    }
    four.sin_port = port;
    for (i = 0; i < sizeof four.sin_addr; i++) ((uint8_t *)&four.sin_addr)[i] = wanted->address[i];
    return sys_call(SYS_bind, fd, &four, sizeof four, 0, 0, 0);
}

/* A filter that passes the headers of packets to addresses where nothing listens, so that they can be recorded; not of
 * those to the cage's loopback or to the doors (raw(7): the packet begins with the IP header). */
static long filter_elsewhere(int fd) {
    static const struct sock_filter elsewhere[] = {
        {BPF_LD | BPF_W | BPF_ABS, 0, 0, 16},          /* the destination */
        {BPF_JMP | BPF_JEQ | BPF_K, 3, 0, 0xc6120001}, /* 198.18.0.1 */
        {BPF_ALU | BPF_AND | BPF_K, 0, 0, 0xff000000},
        {BPF_JMP | BPF_JEQ | BPF_K, 1, 0, 0x7f000000},
        {BPF_RET | BPF_K, 0, 0, HEADERS},
        {BPF_RET | BPF_K, 0, 0, 0},
    };
    const struct sock_fprog filter = {sizeof elsewhere / sizeof *elsewhere, (struct sock_filter *)elsewhere};
    return sys_call(SYS_setsockopt, fd, SOL_SOCKET, SO_ATTACH_FILTER, &filter, sizeof filter, 0);
}

/* What is bound costs nothing where something else arrives: the kernel compares the address before it copies. */
static void open_monitor(struct psb_socket *wanted) {
    const int protocol = wanted->port;
    long result = sys_call(SYS_socket, wanted->family, wanted->type | SOCK_CLOEXEC | SOCK_NONBLOCK, protocol, 0, 0, 0);
    if (result < 0) return;
    wanted->fd = (int)result;
    result = protocol == IPPROTO_UDP ? filter_elsewhere(wanted->fd) : bind_to(wanted->fd, wanted);
    if (result >= 0) return;
    sys_close(wanted->fd);
    wanted->fd = -1;
}

static long make_socket(struct psb_socket *wanted) {
    long result;
    if (wanted->type == SOCK_RAW) {
        open_monitor(wanted);
        return 0;
    }
    result = sys_call(SYS_socket, wanted->family, wanted->type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, 0, 0, 0);
    if (result < 0) return result;
    wanted->fd = (int)result;
    if (wanted->port) {
        result = bind_to(wanted->fd, wanted);
        if (result < 0) return result;
    }
    return wanted->backlog ? sys_call(SYS_listen, wanted->fd, wanted->backlog, 0, 0, 0, 0) : 0;
}

static int make_sockets(struct psb_inside *wanted) {
    size_t i;
    for (i = 0; i < wanted->n_sockets; i++) {
        long result = make_socket(&wanted->sockets[i]);
        if (result < 0) return fail(&wanted->error, PSB_STEP_DOOR_SOCKET, result, wanted->sockets[i].name);
    }
    return 0;
}

static void work_inside(void *argument) {
    struct visit *visit = argument;
    struct psb_inside *wanted = visit->wanted;
    struct psb_error *error = &wanted->error;
    long result = sys_call(SYS_setns, visit->pidfd, CLONE_NEWUSER | CLONE_NEWNET, 0, 0, 0, 0);
    if (result < 0) {
        fail(error, PSB_STEP_DOOR_ENTER, result, NULL);
        return;
    }
    result = tell_kernel(&visit->netlink, NETLINK_ROUTE, wanted->routes, wanted->routes_size);
    if (result < 0) {
        fail(error, PSB_STEP_DOOR_ROUTE, result, "lo");
        return;
    }
    result = tell_kernel(&visit->netlink, NETLINK_NETFILTER, wanted->redirect, wanted->redirect_size);
    if (result < 0) {
        fail(error, PSB_STEP_DOOR_REDIRECT, result, "nf_tables");
        return;
    }
    visit->done = !make_sockets(wanted);
}

static void close_all(struct visit *visit) {
    size_t i;
    if (visit->netlink >= 0) close(visit->netlink);
    for (i = 0; i < visit->wanted->n_sockets; i++) {
        struct psb_socket *made = &visit->wanted->sockets[i];
        if (made->fd >= 0) close(made->fd);
        made->fd = -1;
    }
}

int psb_inside(int init_pidfd, struct psb_inside *wanted) {
    struct visit visit = {.wanted = wanted, .pidfd = init_pidfd, .netlink = -1};
    int result;
    size_t i;
    for (i = 0; i < wanted->n_sockets; i++) wanted->sockets[i].fd = -1;
    fail(&wanted->error, PSB_STEP_DOOR_ENTER, -ESRCH, NULL); /* what stays when something kills the child */
    result = run_in_vfork_child(CLONE_FILES, work_inside, &visit);
    if (result < 0) fail(&wanted->error, PSB_STEP_DOOR_ENTER, result, NULL);
    if (result >= 0 && visit.done) return wanted->error.step = PSB_STEP_NONE;
    close_all(&visit);
    return -1;
}

struct setting {
    int pidfd;
    const char *path, *value;
    long result;
};

/* /proc/sys/net is that of whoever opens it, and its owner is root of the namespace. */
static void write_setting(void *argument) {
    struct setting *setting = argument;
    long fd = sys_call(SYS_setns, setting->pidfd, CLONE_NEWUSER | CLONE_NEWNET, 0, 0, 0, 0);
    if (fd >= 0) fd = sys_open(setting->path, O_WRONLY | O_CLOEXEC, 0);
    setting->result = fd < 0 ? fd : sys_write((int)fd, setting->value, text_length(setting->value));
}

int psb_setting_inside(int init_pidfd, const char *path, const char *value) {
    struct setting setting = {.pidfd = init_pidfd, .path = path, .value = value, .result = -ESRCH};
    int result = run_in_vfork_child(0, write_setting, &setting); /* a table of descriptors of its own ends with it */
    if (result < 0) return result;
    return setting.result < 0 ? (int)setting.result : 0;
}

struct trial {
    const void *batch;
    size_t size;
    int netlink;
    long result;
};

static void try_batch(void *argument) {
    struct trial *trial = argument;
    trial->result = tell_kernel(&trial->netlink, NETLINK_NETFILTER, trial->batch, trial->size);
}

int psb_probe_redirect(const void *batch, size_t size) {
    struct trial trial = {.batch = batch, .size = size, .netlink = -1, .result = -EPERM};
    int result = run_in_vfork_child(CLONE_NEWUSER | CLONE_NEWNET, try_batch, &trial);
    return -(result < 0 ? result : (int)trial.result);
}
