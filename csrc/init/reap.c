/* Children: reaping them, reporting the commands among them, signalling and killing (wait4(2), kill(2)). */

#include "init.h"

#define SIGKILL_ 9
#define WNOHANG_ 1
#define WALL_ 0x40000000
#define ECHILD_ (-10)
#define EINTR_ (-4)
#define PATIENCE 64 /* waits that fail: a filter around the host refuses them all */

struct usage { /* the head of struct rusage */
    int64_t user_s, user_us, system_s, system_us, max_rss;
    int64_t memory[6], blocks_in, blocks_out, rest[5];
};

/* Where kill(-1) reaches the cage and nobody else: in a PID namespace of its own, or out of a Landlock domain that no
 * signal leaves (setup/landlock.c). */
static int kill_all_is_ours(const struct cage *cage) {
    return !(cage->flags & PSB_SETUP_SUBREAPER) || (cage->flags & PSB_SETUP_SCOPED);
}

static struct command *find_by_id(struct cage *cage, uint32_t id) {
    uint32_t i;
    for (i = 0; i < cage->n_commands; i++)
        if (cage->commands[i].pid && cage->commands[i].id == id) return &cage->commands[i];
    return NULL;
}

static struct command *find(struct cage *cage, int32_t pid) {
    uint32_t i;
    for (i = 0; i < cage->n_commands; i++)
        if (cage->commands[i].pid == pid) return &cage->commands[i];
    return NULL;
}

static void tell_exit(struct command *command, int32_t status, const struct usage *usage, uint32_t killed) {
    struct psb_report record;
    fill(&record, 0, sizeof record);
    record.kind = PSB_REPORT_EXITED;
    record.pid = command->pid;
    record.status = status;
    record.killed_others = killed;
    record.timed_out = command->stage != WALLTIME_RUNNING;
    record.user_us = (uint64_t)(usage->user_s * 1000000 + usage->user_us);
    record.system_us = (uint64_t)(usage->system_s * 1000000 + usage->system_us);
    record.max_rss_kb = (uint64_t)usage->max_rss;
    report(command->report_fd, &record);
    sys_close(command->report_fd);
    command->pid = 0;
}

/* Every process of the cage is our child, or a descendant of one: no child, nobody left. */
static int nobody_left(void) {
    int32_t status = 0;
    return sys_call(SYS_wait4, -1, &status, WNOHANG_ | WALL_, 0, 0, 0) == ECHILD_;
}

/* A one-shot cage is empty before its end is reported: whoever reads the report may rely on it. */
static void finish(struct cage *cage, struct command *command, int32_t status, const struct usage *usage) {
    const int oneshot = command->oneshot != 0;
    const uint32_t killed = oneshot && !nobody_left() ? kill_everything(cage) : 0;
    tell_exit(command, status, usage, killed);
    if (oneshot) sys_exit(0);
}

/* The ends of its commands cannot be told any more: a filter around the host. Everything ends, and the host sees that.
 */
static _Noreturn void give_up(struct cage *cage) {
    kill_everything(cage);
    sys_exit(1);
}

void reap(struct cage *cage) {
    for (;;) {
        struct usage usage = {0};
        int32_t status = 0;
        long pid = sys_call(SYS_wait4, -1, &status, WNOHANG_ | WALL_, &usage, 0, 0);
        struct command *command;
        if (pid == EINTR_) continue;
        if (pid < 0 && pid != ECHILD_) give_up(cage);
        if (pid <= 0) return;
        cage->blocks_written += (uint64_t)usage.blocks_out;
        if (pid == starting()) finish_start(); /* it ended after we had last looked at its gate */
        command = find(cage, (int32_t)pid);
        if (command) finish(cage, command, status, &usage);
    }
}

void signal_all(const struct cage *cage, int32_t signal) {
    if (kill_all_is_ours(cage))
        sys_call(SYS_kill, -1, signal, 0, 0, 0, 0);
    else
        signal_children(signal);
}

/* Orphans become our children (PID 1, or subreaper), so the cage is empty when there is no child left. Without a way
 * to signal all at once this goes generation by generation. */
uint32_t kill_everything(struct cage *cage) {
    uint32_t killed = 0, failures = 0;
    for (;;) {
        int32_t status = 0;
        long result;
        signal_all(cage, SIGKILL_);
        result = sys_call(SYS_wait4, -1, &status, WALL_, 0, 0, 0);
        if (result == ECHILD_ || (result < 0 && ++failures == PATIENCE)) return killed; /* nobody is left */
        if (result < 0) continue;
        if ((status & 0x7f) == SIGKILL_) killed++; /* others had ended, and waited to be reaped */
    }
}

void signal_command(struct cage *cage, const struct psb_signal *request) {
    struct command *command;
    if (request->scope == PSB_SIGNAL_ALL) {
        signal_all(cage, request->signal);
        return;
    }
    command = find_by_id(cage, request->id);
    if (!command) return; /* ended meanwhile: its pid may be another's by now */
    if (request->scope == PSB_SIGNAL_SESSION)
        signal_tree(command->pid, request->signal);
    else
        sys_call(SYS_kill, command->pid, request->signal, 0, 0, 0, 0);
}
