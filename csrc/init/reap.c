/* Children: reaping them, and reporting the commands among them (wait4(2)). */
#include "../uapi.h"
#include "init.h"

struct usage { /* the head of struct rusage */
    int64_t user_s, user_us, system_s, system_us, max_rss;
    int64_t memory[6], blocks_in, blocks_out, rest[5];
};

static struct command *find(struct cage *cage, int32_t pid) {
    uint32_t i;
    for (i = 0; i < cage->n_commands; i++)
        if (cage->commands[i].pid == pid) return &cage->commands[i];
    return NULL;
}

/* With an exit code of its own: who was killed does not say why. */
static int has_failed(int32_t status) {
    return !(status & 0x7f) && status >> 8;
}

static void tell_exit(struct cage *cage, struct command *command, int32_t status, const struct usage *usage,
                      uint32_t killed) {
    struct psb_report record;
    fill(&record, 0, sizeof record);
    record.kind = PSB_REPORT_EXITED;
    record.pid = command->pid;
    record.status = status;
    record.killed_others = killed;
    record.timed_out = command->stage != WALLTIME_RUNNING;
    record.no_route = has_failed(status) && met_no_route(cage, command);
    cage->others_ended = !has_failed(status);
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
    return sys_call(SYS_wait4, -1, &status, WNOHANG | __WALL, 0, 0, 0) == -ECHILD;
}

/* A one-shot cage is empty before its end is reported: whoever reads the report may rely on it. */
static void finish(struct cage *cage, struct command *command, int32_t status, const struct usage *usage) {
    const int oneshot = command->oneshot != 0;
    const uint32_t killed = oneshot && !nobody_left() ? kill_everything(cage) : 0;
    tell_exit(cage, command, status, usage, killed);
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
        long pid = sys_call(SYS_wait4, -1, &status, WNOHANG | __WALL, &usage, 0, 0);
        struct command *command;
        if (pid == -EINTR) continue;
        if (pid < 0 && pid != -ECHILD) give_up(cage);
        if (pid <= 0) return;
        cage->blocks_written += (uint64_t)usage.blocks_out;
        if (pid == starting()) finish_start(1); /* it ended after we had last looked at its exec pipe */
        command = find(cage, (int32_t)pid);
        if (command) finish(cage, command, status, &usage);
    }
}
