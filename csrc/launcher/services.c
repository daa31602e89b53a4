#include "services.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "exit_codes.h"
#include "../host/probe/seen.h"
#include "python.h"
#include "text.h"

#define SERVE "beside" /* pysandbox/cli/beside.py */

extern char **environ;

/* ---- what is held ------------------------------------------------------------------------------------------------ */

static int open_doors(struct services *services) {
    const struct kept *kept = services->kept;
    const struct psb_kept_door *row = table(kept, PSB_KEPT_DOORS);
    struct psb_inside inside = {
        .routes = table(kept, PSB_KEPT_ROUTES),
        .routes_size = count_of(kept, PSB_KEPT_ROUTES),
        .redirect = table(kept, PSB_KEPT_REDIRECT),
        .redirect_size = count_of(kept, PSB_KEPT_REDIRECT),
        .sockets = services->doors,
        .n_sockets = count_of(kept, PSB_KEPT_DOORS),
    };
    size_t i;
    if (!inside.n_sockets) return 0;
    for (i = 0; i < inside.n_sockets; i++) {
        struct psb_socket *door = &services->doors[i];
        door->name = text_at(kept, row[i].name);
        door->family = row[i].family;
        door->type = row[i].type;
        door->port = (uint16_t)row[i].port;
        door->backlog = row[i].backlog;
        memcpy(door->address, row[i].address, sizeof door->address);
    }
    if (psb_inside(services->cage->pidfd, &inside)) return -1;
    services->n_doors = inside.n_sockets;
    return 0;
}

int open_services(struct services *services) {
    if (services->kept->head->flags & PSB_KEPT_LISTENS) {
        services->listener = psb_take_listener(services->cage->control, services->cage->pidfd);
        if (services->listener < 0) return -1;
    }
    if (open_doors(services)) return -1;
    return open_watch(&services->watch, services->kept, services->cage->pid, services->cage->control);
}

int begin_services(struct services *services) {
    return begin_watch(&services->watch);
}

static void close_one(int *fd) {
    if (*fd >= 0) close(*fd);
    *fd = -1;
}

static void close_held(struct services *services) {
    close_one(&services->listener);
    while (services->n_doors) close_one(&services->doors[--services->n_doors].fd);
}

void end_services(struct services *services) {
    end_watch(&services->watch);
    close_memory(&services->watch.memory);
    close_held(services);
    close_one(&services->report);
    close_one(&services->channel);
    if (services->python) {
        kill(services->python, SIGKILL);
        while (waitpid(services->python, NULL, 0) < 0 && errno == EINTR) {}
    }
    services->python = 0;
}

/* ---- Python ------------------------------------------------------------------------------------------------------ */

static void add_field(struct text *to, const char *name, uint64_t number) {
    add_text(to, ",\"");
    add_text(to, name);
    add_text(to, "\":");
    add_number(to, number);
}

static void add_fd(struct text *to, const char *name, int fd) {
    if (fd >= 0) add_field(to, name, (uint64_t)fd);
}

static void add_doors(struct text *to, const struct services *services) {
    const struct psb_kept_door *row = table(services->kept, PSB_KEPT_DOORS);
    size_t i;
    add_text(to, ",\"doors\":{\"\":0");
    for (i = 0; i < services->n_doors; i++) add_fd(to, text_at(services->kept, row[i].kind), services->doors[i].fd);
    add_text(to, "}");
}

static void add_watched(struct text *to, const struct services *services) {
    const struct memory *memory = &services->watch.memory;
    const uint32_t *row = table(services->kept, PSB_KEPT_WATCHED);
    int i;
    if (memory->proc < 0) return;
    add_text(to, ",\"watched\":{\"/proc\":");
    add_number(to, (uint64_t)memory->proc);
    for (i = 0; i < memory->n_files; i++) add_fd(to, text_at(services->kept, row[i]), memory->files[i]);
    add_text(to, "}");
}

static void add_cgroup(struct text *to, const struct cgroup *cgroup) {
    if (cgroup->fd < 0) return;
    add_fd(to, "cgroup", cgroup->fd);
    add_text(to, ",\"cgroup_path\":");
    if (add_json(to, cgroup->path)) to->failed = 1;
}

/* What is open for it alone. */
struct handed {
    int report, channel, absent;
};

/* A file with the trees and names that were absent when the cage was made, each with its NUL. Or -1. */
static int hold_absent(const struct kept *kept) {
    const struct psb_absent *row = table(kept, PSB_KEPT_ABSENT);
    struct text held = {0};
    int file = memfd_create("pysandbox-absent", MFD_CLOEXEC);
    size_t i;
    for (i = 0; i < count_of(kept, PSB_KEPT_ABSENT); i++) {
        add_whole(&held, row[i].tree);
        add_whole(&held, row[i].name);
    }
    if (file >= 0 && (held.failed || pwrite(file, held.bytes, held.size, 0) != (ssize_t)held.size)) close_one(&file);
    free(held.bytes);
    return file;
}

/* All that Python must know of this run, beside the arguments, which it reads again: JSON. */
static char *describe_run(const struct services *services, const struct handed *handed) {
    const struct timespec *began = &services->trail->began;
    struct text told = {0};
    add_text(&told, "{\"id\":\"");
    add_text(&told, services->trail->id);
    add_text(&told, "\",\"hostname\":\"");
    add_text(&told, services->kept->plan->hostname);
    add_text(&told, "\",\"served\":\"");
    add_text(&told, text_named(services->kept, PSB_TEXT_SERVED));
    add_text(&told, "\"");
    add_field(&told, "pid", (uint64_t)services->cage->pid);
    add_field(&told, "user", (uint64_t)services->user);
    add_field(&told, "began_ns", (uint64_t)began->tv_sec * 1000000000u + (uint64_t)began->tv_nsec);
    add_field(&told, "since_ns", services->trail->since);
    add_fd(&told, "control", services->cage->control);
    add_fd(&told, "pidfd", services->cage->pidfd);
    add_fd(&told, "listener", services->listener);
    add_fd(&told, "report", handed->report);
    add_fd(&told, "channel", handed->channel);
    add_fd(&told, "absent", handed->absent);
    add_doors(&told, services);
    add_watched(&told, services);
    add_cgroup(&told, services->cgroup);
    add_whole(&told, "}");
    if (told.failed) free(told.bytes);
    return told.failed ? NULL : told.bytes;
}

/* What it is given stays open there, under the same number. */
static void pass_on(posix_spawn_file_actions_t *actions, int fd) {
    if (fd >= 0) posix_spawn_file_actions_adddup2(actions, fd, fd);
}

static void pass_all(posix_spawn_file_actions_t *actions, const struct services *services) {
    const struct memory *memory = &services->watch.memory;
    size_t i;
    int file;
    pass_on(actions, services->cage->control);
    pass_on(actions, services->cage->pidfd);
    pass_on(actions, services->listener);
    pass_on(actions, memory->proc);
    pass_on(actions, services->cgroup->fd);
    for (file = 0; file < memory->n_files; file++) pass_on(actions, memory->files[file]);
    for (i = 0; i < services->n_doors; i++) pass_on(actions, services->doors[i].fd);
}

/* What the keyboard sends is the command's. */
static void keep_signals_away(posix_spawnattr_t *attributes) {
    static const int not_ours[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGTSTP};
    sigset_t blocked;
    size_t i;
    sigemptyset(&blocked);
    for (i = 0; i < sizeof not_ours / sizeof *not_ours; i++) sigaddset(&blocked, not_ours[i]);
    posix_spawnattr_setsigmask(attributes, &blocked);
    posix_spawnattr_setflags(attributes, POSIX_SPAWN_SETSIGMASK);
}

/* Its command line: that of this run, with what it must know besides. NULL for want of memory. */
static char **command_line(const struct services *services, char *told) {
    size_t count = 0;
    char **line;
    while (services->arguments[count]) count++;
    line = calloc(count + 4, sizeof *line);
    if (!line) return NULL;
    line[0] = (char *)(uintptr_t)PYTHON_COMMAND;
    line[1] = (char *)(uintptr_t)SERVE;
    line[2] = told;
    memcpy(line + 3, services->arguments, count * sizeof *line);
    return line;
}

static pid_t start_process(const struct services *services, const struct handed *handed) {
    char *path = python_command(services->self), *told = describe_run(services, handed);
    char **line = path && told ? command_line(services, told) : NULL;
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    pid_t pid = -1;
    posix_spawn_file_actions_init(&actions);
    posix_spawnattr_init(&attributes);
    pass_all(&actions, services);
    pass_on(&actions, handed->report);
    pass_on(&actions, handed->channel);
    pass_on(&actions, handed->absent);
    keep_signals_away(&attributes);
    if (!line || posix_spawn(&pid, path, &actions, &attributes, line, environ)) pid = -1;
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&actions);
    free(line);
    free(told);
    free(path);
    return pid;
}

static int start_python(struct services *services) {
    int ends[2] = {-1, -1}, report[2] = {-1, -1};
    struct handed handed = {-1, -1, hold_absent(services->kept)};
    pid_t pid = -1;
    if (!socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) && !pipe2(report, O_CLOEXEC)) {
        handed.report = report[0];
        handed.channel = ends[1];
        if (handed.absent >= 0) pid = start_process(services, &handed);
    }
    close_one(&ends[1]);
    close_one(&report[0]);
    close_one(&handed.absent);
    services->channel = ends[0];
    services->report = report[1];
    if (pid < 0) return -1;
    services->python = pid;
    return write(services->report, &services->started, sizeof services->started) < 0 ? -1 : 0;
}

/* ---- what comes -------------------------------------------------------------------------------------------------- */

enum {
    AT_CHANNEL,
    AT_WATCH,
    AT_LISTENER,
    AT_DOORS
};

nfds_t poll_services(const struct services *services, struct pollfd *polled) {
    const int waits = !services->python;
    nfds_t i;
    polled[AT_CHANNEL] = (struct pollfd){services->channel, POLLIN, 0};
    polled[AT_WATCH] = (struct pollfd){services->watch.noticed, POLLIN, 0};
    polled[AT_LISTENER] = (struct pollfd){waits ? services->listener : -1, POLLIN, 0};
    for (i = 0; i < services->n_doors; i++)
        polled[AT_DOORS + i] = (struct pollfd){waits ? services->doors[i].fd : -1, POLLIN, 0};
    return AT_DOORS + i;
}

int is_held(const struct services *services) {
    return services->stopped;
}

static void let_go_on(struct services *services) {
    const struct psb_signal message = {PSB_MESSAGE_SIGNAL, 1, SIGCONT, PSB_SIGNAL_ALL};
    uint64_t rung;
    if (services->watch.noticed >= 0 && read(services->watch.noticed, &rung, sizeof rung) > 0) services->stopped = 1;
    if (!services->stopped) return;
    services->stopped = 0;
    while (psb_send(services->cage->control, &message, sizeof message, NULL, 0) == -EINTR) {}
}

/* It serves now, and it alone: nothing stays open here that it is to close. -1 when it has ended. */
static int take_word(struct services *services) {
    char word;
    if (recv(services->channel, &word, 1, 0) <= 0) return -1;
    services->serves = 1;
    end_watch(&services->watch);
    let_go_on(services);
    close_held(services);
    return 0;
}

static int fail_to_serve(struct services *services) {
    services->broken = 1;
    close_one(&services->channel);
    syscall(SYS_pidfd_send_signal, services->cage->pidfd, SIGKILL, NULL, 0);
    return -1;
}

int heed_services(struct services *services, const struct pollfd *polled, nfds_t count) {
    int calls = 0;
    nfds_t i;
    if (polled[AT_CHANNEL].revents && take_word(services)) return fail_to_serve(services);
    if (polled[AT_WATCH].revents) {
        uint64_t rung;
        services->stopped |= read(services->watch.noticed, &rung, sizeof rung) > 0;
        if (services->serves) let_go_on(services);
        calls = services->stopped;
    }
    if (polled[AT_LISTENER].revents & POLLIN) calls = 1;
    if (polled[AT_LISTENER].revents & ~POLLIN) close_one(&services->listener); /* nobody is left who could call */
    for (i = AT_DOORS; i < count; i++)
        if (polled[i].revents) calls = 1;
    return calls && !services->python && start_python(services) ? fail_to_serve(services) : 0;
}

void call_python(struct services *services) {
    if (!services->python && !services->broken && start_python(services)) fail_to_serve(services);
}

/* ---- the end ----------------------------------------------------------------------------------------------------- */

int let_python_end(struct services *services, const struct ending *ending, const struct psb_report *last) {
    int status, got;
    char word;
    if (send(services->channel, ending, sizeof *ending, MSG_NOSIGNAL) < 0) return -1;
    if (last && write(services->report, last, sizeof *last) < 0) return -1;
    close_one(&services->report);
    do got = waitpid(services->python, &status, 0);
    while (got < 0 && errno == EINTR);
    services->python = 0;
    if (!services->serves && recv(services->channel, &word, 1, MSG_DONTWAIT) <= 0) return -1;
    return got > 0 && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}
