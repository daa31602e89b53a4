/* One ioctl for each answer (seccomp_unotify(2)). An answer to a call that waits no more fails, and changes nothing. */
#include "answers.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>

#ifndef SECCOMP_ADDFD_FLAG_SEND
#define SECCOMP_ADDFD_FLAG_SEND 2
#endif

#define TRIES 8

/* A caller whose answer is lost waits for ever. That it waits no more (ENOENT), or that it has been answered
 * (EINPROGRESS), is an answer; a signal or a moment's want of memory is none, and the kernel is asked again. */
static int tell_kernel(const struct guest *guest, unsigned long request, void *argument) {
    int tries, result = 0;
    for (tries = 0; tries < TRIES; tries++) {
        result = ioctl(guest->listener, request, argument) < 0 ? -errno : 0;
        if (!result || result == -ENOENT || result == -EINPROGRESS) break;
    }
    return result;
}

static int send_answer(const struct guest *guest, uint64_t id, int64_t value, int32_t error, uint32_t flags) {
    union {
        struct seccomp_notif_resp answer;
        uint8_t room[64];
    } out = {.answer = {.id = id, .val = value, .error = error, .flags = flags}};
    return tell_kernel(guest, SECCOMP_IOCTL_NOTIF_SEND, &out);
}

int pass(const struct guest *guest, uint64_t id) {
    return send_answer(guest, id, 0, 0, SECCOMP_USER_NOTIF_FLAG_CONTINUE);
}

int give(const struct guest *guest, uint64_t id, int64_t value) {
    return value < 0 ? send_answer(guest, id, 0, (int32_t)value, 0) : send_answer(guest, id, value, 0, 0);
}

int still_waits(const struct guest *guest, uint64_t id) {
    return tell_kernel(guest, SECCOMP_IOCTL_NOTIF_ID_VALID, &id) == 0;
}

/* One ioctl installs the descriptor and answers (Linux 5.14). */
int inject(const struct guest *guest, uint64_t id, int fd, uint32_t flags) {
    struct seccomp_notif_addfd add = {
        .id = id, .flags = SECCOMP_ADDFD_FLAG_SEND, .srcfd = (uint32_t)fd, .newfd_flags = flags};
    return ioctl(guest->listener, SECCOMP_IOCTL_NOTIF_ADDFD, &add) < 0 ? -errno : 0;
}

/* The socket of the host's network over the caller's number; then the caller may hear that it is connected. */
static int install(const struct guest *guest, uint64_t id, const struct deed *deed) {
    struct seccomp_notif_addfd add = {.id = id,
                                      .flags = SECCOMP_ADDFD_FLAG_SETFD,
                                      .srcfd = (uint32_t)deed->socket,
                                      .newfd = (uint32_t)deed->args[0],
                                      .newfd_flags = deed->close_on_exec ? O_CLOEXEC : 0};
    if (deed->blocking) fcntl(deed->socket, F_SETFL, fcntl(deed->socket, F_GETFL) & ~O_NONBLOCK);
    return ioctl(guest->listener, SECCOMP_IOCTL_NOTIF_ADDFD, &add) < 0 ? -errno : 0;
}

/* A broken pipe is a signal for the caller, and must not be one for the supervisor; nor for whoever has the number of a
 * caller that is dead. */
static void break_pipe(const struct guest *guest, uint64_t id, const struct deed *deed) {
    if (still_waits(guest, id)) syscall(SYS_tkill, deed->tid, SIGPIPE);
}

/* One that could not be connected is not given away: the caller keeps its own, and may try another address. */
void finish(const struct guest *guest, uint64_t id, struct deed *deed) {
    const int works = deed->value >= 0 || deed->value == -EINPROGRESS;
    const int result = deed->fresh && works ? install(guest, id, deed) : 0;
    if (deed->breaks) break_pipe(guest, id, deed);
    give(guest, id, result ? result : deed->value);
}
