/* One ioctl for each answer (seccomp_unotify(2)). An answer to a call that waits no more fails, and changes nothing. */
#include "answers.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <sys/ioctl.h>

#ifndef SECCOMP_ADDFD_FLAG_SEND
#define SECCOMP_ADDFD_FLAG_SEND 2
#endif

#define TRIES 8

/* A caller whose answer is lost waits for ever. ENOENT (it waits no more) and EINPROGRESS (it has been answered) are
 * final; after a signal, or while memory is short, the ioctl is tried again. */
static int tell_kernel(const struct notified_cage *cage, unsigned long request, void *argument) {
    int tries, result = 0;
    for (tries = 0; tries < TRIES; tries++) {
        result = ioctl(cage->listener, request, argument) < 0 ? -errno : 0;
        if (!result || result == -ENOENT || result == -EINPROGRESS) break;
    }
    return result;
}

static int send_answer(const struct notified_cage *cage, uint64_t id, int64_t value, int32_t error, uint32_t flags) {
    union {
        struct seccomp_notif_resp answer;
        uint8_t room[64];
    } out = {.answer = {.id = id, .val = value, .error = error, .flags = flags}};
    return tell_kernel(cage, SECCOMP_IOCTL_NOTIF_SEND, &out);
}

int respond_continue(const struct notified_cage *cage, uint64_t id) {
    return send_answer(cage, id, 0, 0, SECCOMP_USER_NOTIF_FLAG_CONTINUE);
}

int respond_value(const struct notified_cage *cage, uint64_t id, int64_t value) {
    return value < 0 ? send_answer(cage, id, 0, (int32_t)value, 0) : send_answer(cage, id, value, 0, 0);
}

int still_waits(const struct notified_cage *cage, uint64_t id) {
    return is_waiting(cage->listener, id);
}

/* One ioctl installs the descriptor and answers (Linux 5.14). */
int inject(const struct notified_cage *cage, uint64_t id, int fd, uint32_t flags) {
    struct seccomp_notif_addfd add = {
        .id = id, .flags = SECCOMP_ADDFD_FLAG_SEND, .srcfd = (uint32_t)fd, .newfd_flags = flags};
    return ioctl(cage->listener, SECCOMP_IOCTL_NOTIF_ADDFD, &add) < 0 ? -errno : 0;
}

/* Installs the socket of the host's network over the caller's descriptor, before the caller learns that it is
 * connected.
 */
static int install(const struct notified_cage *cage, uint64_t id, const struct emulated_call *req) {
    struct seccomp_notif_addfd add = {.id = id,
                                      .flags = SECCOMP_ADDFD_FLAG_SETFD,
                                      .srcfd = (uint32_t)req->socket,
                                      .newfd = (uint32_t)req->facts.args[0],
                                      .newfd_flags = req->close_on_exec ? O_CLOEXEC : 0};
    if (req->blocking) fcntl(req->socket, F_SETFL, fcntl(req->socket, F_GETFL) & ~O_NONBLOCK);
    return ioctl(cage->listener, SECCOMP_IOCTL_NOTIF_ADDFD, &add) < 0 ? -errno : 0;
}

/* A socket that could not be connected is not installed: the caller keeps its own, and may try another address. */
void respond_emulated(const struct notified_cage *cage, uint64_t id, struct emulated_call *req) {
    const int works = req->value >= 0 || req->value == -EINPROGRESS;
    const int result = req->replacement && works ? install(cage, id, req) : 0;
    if (req->breaks) signal_caller(&req->facts.caller, SIGPIPE); /* as its call would have done */
    respond_value(cage, id, result ? result : req->value);
}
