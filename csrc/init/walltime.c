/* Wall time: SIGTERM at the deadline, SIGKILL a grace period later. Kept here and not in the host, so that a host that
 * is stopped, busy or asleep does not let a command run on. */
#include "../uapi.h"
#include "init.h"

/* A clock that cannot be read (a filter around the host) has run out for every command. */
static uint64_t now_ms(void) {
    int64_t time[2] = {0, 0};
    if (sys_call(SYS_clock_gettime, CLOCK_MONOTONIC, time, 0, 0, 0, 0) < 0) return UINT64_MAX;
    return (uint64_t)time[0] * 1000 + (uint64_t)time[1] / 1000000;
}

void start_clock(struct command *command, uint32_t walltime_ms, uint32_t grace_ms) {
    const uint64_t now = walltime_ms ? now_ms() : 0;
    command->stage = WALLTIME_RUNNING;
    command->grace_ms = grace_ms;
    command->deadline_ms = now == UINT64_MAX ? 1 : walltime_ms ? now + walltime_ms : 0;
}

static void signal_command_tree(const struct cage *cage, const struct command *command, int32_t signal) {
    if (command->oneshot)
        signal_all(cage, signal);
    else
        signal_tree(command->pid, signal);
}

/* A stopped process sees SIGTERM only when it is continued. */
static void step_up(const struct cage *cage, struct command *command) {
    if (command->stage == WALLTIME_RUNNING) {
        command->stage = WALLTIME_TERMINATED;
        command->deadline_ms += command->grace_ms;
        signal_command_tree(cage, command, SIGTERM);
        signal_command_tree(cage, command, SIGCONT);
    } else {
        command->stage = WALLTIME_KILLED;
        command->deadline_ms = 0;
        signal_command_tree(cage, command, SIGKILL);
    }
}

int64_t enforce_walltime(struct cage *cage) {
    uint64_t now = 0, next = 0;
    uint32_t i;
    for (i = 0; i < cage->n_commands; i++) {
        struct command *command = &cage->commands[i];
        if (!command->pid || !command->deadline_ms) continue;
        if (!now) now = now_ms();
        if (now >= command->deadline_ms) step_up(cage, command);
        if (command->deadline_ms && (!next || command->deadline_ms < next)) next = command->deadline_ms;
    }
    if (!next) return -1;
    return next > now ? (int64_t)(next - now) : 0;
}
