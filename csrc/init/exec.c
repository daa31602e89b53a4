/* Exec orders in cage-init: parse one, fork the child that becomes the command, and tell the host how that went.
 *
 * One start is under way at a time, and cage-init goes on listening meanwhile: the child holds the write end of
 * the exec pipe, whose last copy closes when it execs or dies. Until then the child uses the order, the stack and the
 * message buffer, so no other order is read (main.c). */
#include "../uapi.h"
#include "init.h"

#define CHILD_STACK 16384
#define FEW_POINTERS 256 /* enough for most commands; more are mapped */

struct mapping {
    const void *at;
    size_t size;
};

/* The start under way; `exec_pipe` is -1 when there is none. */
static struct {
    struct attempt attempt;
    struct order order;
    struct mapping body, pointers;
    struct command *command;
    int32_t exec_pipe, report_fd;
} start = {.exec_pipe = -1};

static uint8_t child_stack[CHILD_STACK] __attribute__((aligned(16)));

static struct command *free_place(struct cage *cage) {
    uint32_t i;
    for (i = 0; i < cage->n_commands; i++)
        if (!cage->commands[i].pid) return &cage->commands[i];
    return cage->n_commands < PSB_MAX_COMMANDS ? &cage->commands[cage->n_commands++] : NULL;
}

/* ---- mapped memory ------------------------------------------------------------------------------------------ */

static const void *map(struct mapping *mapping, size_t size, int protection, int flags, int fd) {
    long at = sys_call(SYS_mmap, 0, size, protection, flags, fd, 0);
    if (at < 0 && at > -4096) return NULL;
    mapping->at = (const void *)at;
    mapping->size = size;
    return mapping->at;
}

static void unmap(struct mapping *mapping) {
    if (mapping->size) sys_call(SYS_munmap, mapping->at, mapping->size, 0, 0, 0, 0);
    mapping->size = 0;
}

/* Maps the body. A descriptor that holds less than was announced is refused: to touch the rest would be SIGBUS. */
static const void *map_body(int fd, size_t size) {
    if (sys_call(SYS_lseek, fd, 0, SEEK_END, 0, 0, 0) < (long)size) return NULL;
    return map(&start.body, size, PROT_READ, MAP_PRIVATE, fd);
}

/* ---- the reports -------------------------------------------------------------------------------------------- */

static void tell_failure(void) {
    struct psb_report record;
    fill(&record, 0, sizeof record);
    record.kind = PSB_REPORT_FAILED;
    record.error = start.attempt.error;
    report(start.report_fd, &record);
    sys_close(start.report_fd);
}

static void tell_start(void) {
    struct psb_report record;
    if (start.order.flags & PSB_EXEC_QUIET) return;
    fill(&record, 0, sizeof record);
    record.kind = PSB_REPORT_STARTED;
    record.pid = start.command->pid;
    report(start.report_fd, &record);
}

/* ---- beginning and end of a start --------------------------------------------------------------------------- */

static int parse(const struct psb_exec *exec, const void *body) {
    static const char *few[FEW_POINTERS];
    const size_t room = count_pointers(exec) * sizeof(char *);
    const char **pointers = few;
    if (room > sizeof few)
        pointers = (const char **)(uintptr_t)map(&start.pointers, room, PROT_READ | PROT_WRITE,
                                                 MAP_PRIVATE | MAP_ANONYMOUS, -1);
    if (!pointers) return fail(&start.attempt.error, PSB_STEP_ORDER, -E2BIG, NULL);
    if (parse_order(exec, body, pointers, &start.order))
        return fail(&start.attempt.error, PSB_STEP_ORDER, -EINVAL, NULL);
    return 0;
}

static int read_order(struct message *message) {
    const struct psb_exec *exec = &message->as.exec;
    const int has_body_fd = (exec->flags & PSB_EXEC_BODY_FD) != 0, first = 1 + has_body_fd;
    const void *body = exec + 1;
    int i;
    if (check_exec(message->as.bytes, message->size) || message->n_fds != first + (int)exec->n_fds)
        return fail(&start.attempt.error, PSB_STEP_ORDER, -EINVAL, NULL);
    for (i = 0; i < (int)exec->n_fds; i++) start.order.fds[i] = message->fds[first + i];
    if (has_body_fd) body = map_body(message->fds[1], exec->body_size);
    if (!body) return fail(&start.attempt.error, PSB_STEP_ORDER, -EINVAL, NULL);
    return parse(exec, body);
}

/* From here on it is a command like any other: its wall time runs, and a signal to all reaches it. */
static void register_command(long pid) {
    start.command->pid = (int32_t)pid;
    start.command->report_fd = start.report_fd;
    start.command->id = start.order.id;
    start.command->oneshot = start.order.flags & PSB_EXEC_ONESHOT;
    start_clock(start.command, start.order.walltime_ms, start.order.grace_ms);
}

static int fork_child(struct cage *cage) {
    int32_t exec_pipe[2];
    long result;
    start.command = free_place(cage);
    if (!start.command) return fail(&start.attempt.error, PSB_STEP_FORK, -EAGAIN, "too many commands in one cage");
    result = sys_call(SYS_pipe2, exec_pipe, O_CLOEXEC, 0, 0, 0, 0);
    if (result < 0) return fail(&start.attempt.error, PSB_STEP_FORK, result, NULL);
    start.attempt.exec_pipe = exec_pipe[1];
    result = fork_onto(child_stack, sizeof child_stack, &start.attempt);
    sys_close(exec_pipe[1]);
    if (result < 0) {
        sys_close(exec_pipe[0]);
        return fail(&start.attempt.error, PSB_STEP_FORK, result, NULL);
    }
    register_command(result);
    start.exec_pipe = exec_pipe[0];
    return 0;
}

static void clean_up(void) {
    unmap(&start.body);
    unmap(&start.pointers);
}

void begin_command(struct cage *cage, struct message *message) {
    int i, result;
    fill(&start.attempt.error, 0, sizeof start.attempt.error);
    start.attempt.cage = cage;
    start.attempt.order = &start.order;
    start.report_fd = message->fds[0]; /* main.c has seen to it that there is one */
    result = read_order(message);
    if (!result) result = fork_child(cage);
    for (i = 1; i < message->n_fds; i++) sys_close(message->fds[i]); /* the child has its own copies */
    if (!result) return;
    clean_up();
    tell_failure();
}

int32_t start_pipe(void) {
    return start.exec_pipe;
}

/* A caged process may have stopped the child before its exec; it would be stopped for good. */
void continue_start(void) {
    sys_call(SYS_kill, start.command->pid, SIGCONT, 0, 0, 0, 0);
}

int32_t starting(void) {
    return start.exec_pipe >= 0 ? start.command->pid : 0;
}

/* `reaped`: the child was waited for already, so that its number may be that of an orphan by now. */
void finish_start(int reaped) {
    sys_close(start.exec_pipe);
    start.exec_pipe = -1;
    clean_up();
    if (!start.attempt.error.step) {
        tell_start();
        return;
    }
    if (!reaped) sys_call(SYS_wait4, start.command->pid, 0, __WALL, 0, 0, 0); /* past everything but its exit */
    start.command->pid = 0;
    tell_failure();
}
