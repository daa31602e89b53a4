/* Signals to one command, and to everybody (kill(2)); who everybody is depends on what walls the cage has. */
#include "../uapi.h"
#include "init.h"

#define PATIENCE 64 /* waits that fail: a filter around the host refuses them all */

/* Where kill(-1) reaches the cage and nobody else: in a PID namespace of its own, or out of a Landlock domain that no
 * signal leaves (setup/landlock.c). */
static int kill_all_is_ours(const struct cage *cage) {
    return !(cage->flags & PSB_SETUP_SUBREAPER) || (cage->flags & PSB_SETUP_SCOPED);
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
        signal_all(cage, SIGKILL);
        result = sys_call(SYS_wait4, -1, &status, __WALL, 0, 0, 0);
        if (result == -ECHILD || (result < 0 && ++failures == PATIENCE)) return killed; /* nobody is left */
        if (result < 0) continue;
        if ((status & 0x7f) == SIGKILL) killed++; /* others had ended, and waited to be reaped */
    }
}

static struct command *find_by_id(struct cage *cage, uint32_t id) {
    uint32_t i;
    for (i = 0; i < cage->n_commands; i++)
        if (cage->commands[i].pid && cage->commands[i].id == id) return &cage->commands[i];
    return NULL;
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
