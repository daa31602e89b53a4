/* One message and its descriptors from the control socket (unix(7), SCM_RIGHTS). */
#include "../message.h"
#include "../uapi.h"
#include "init.h"

static void close_all(const struct message *message) {
    int i;
    for (i = 0; i < message->n_fds; i++) sys_close(message->fds[i]);
}

int receive(int fd, struct message *message) {
    struct control control = {0};
    struct io_vector vector = {message->as.bytes, sizeof message->as.bytes};
    struct message_header header = {0, 0, &vector, 1, &control, sizeof control, 0};
    long got = sys_call(SYS_recvmsg, fd, &header, MSG_CMSG_CLOEXEC, 0, 0, 0);
    int i;
    if (got <= 0) return (int)got;
    message->size = (size_t)got;
    message->n_fds = count_fds(&control, header.control_size);
    for (i = 0; i < message->n_fds; i++) message->fds[i] = control.fds[i];
    if (!(header.flags & (MSG_CTRUNC | MSG_TRUNC)) && message->size >= sizeof message->as.kind) return 1;
    close_all(message);
    return -EMSGSIZE;
}
