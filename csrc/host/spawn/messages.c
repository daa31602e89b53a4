/* The control socket and the report pipes, seen from the host: SOCK_SEQPACKET, so a message is whole or not there. */
#include "messages.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "../../sys.h" /* the numbers that older headers lack */
#include "passing.h"

static int send_with(int control, const void *message, size_t size, const int *fds, size_t n_fds, int flags) {
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
    sent = send_descriptors(control, &header, flags);
    return sent < 0 ? -errno : 0;
}

int psb_send(int control, const void *message, size_t size, const int *fds, size_t n_fds) {
    return send_with(control, message, size, fds, n_fds, 0);
}

int psb_pass(int to, const void *message, size_t size, const int *fds, size_t n_fds) {
    return send_with(to, message, size, fds, n_fds, MSG_DONTWAIT);
}

void psb_wake_hint(int control) {
    const uint32_t kind = PSB_MESSAGE_WAKE_HINT;
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

int psb_take_upper(int control) {
    union {
        char bytes[CMSG_SPACE(sizeof(int))];
        struct cmsghdr rights;
    } control_data;
    uint32_t kind = 0;
    struct iovec vector = {&kind, sizeof kind};
    struct msghdr header = {.msg_iov = &vector,
                            .msg_iovlen = 1,
                            .msg_control = control_data.bytes,
                            .msg_controllen = sizeof control_data.bytes};
    const ssize_t got = recvmsg(control, &header, MSG_CMSG_CLOEXEC);
    const struct cmsghdr *rights = got < 0 ? NULL : CMSG_FIRSTHDR(&header);
    int fd;
    if (got < 0) return -errno;
    if (!rights || rights->cmsg_type != SCM_RIGHTS || rights->cmsg_len != CMSG_LEN(sizeof fd)) return -ECONNRESET;
    memcpy(&fd, CMSG_DATA(rights), sizeof fd);
    if (got == sizeof kind && kind == PSB_MESSAGE_UPPER) return fd;
    close(fd);
    return -ECONNRESET;
}

int psb_read_report(int fd, struct psb_report *report) {
    ssize_t got = read(fd, report, sizeof *report);
    if (got < 0) return -errno;
    if (got == 0) return 0;
    return got == sizeof *report ? 1 : -EBADMSG;
}
