/* Parsing of what the host sends. Pure: no system call, no state, every length checked before use; fuzzed on its own
 * (csrc/fuzz). The host is trusted, but a parser that believes its input is how that stops being true. */
#include "../uapi.h"
#include "init.h"

/* A flag we do not know may ask for a confinement we would not make. */
static const uint32_t SETUP_FLAGS =
    PSB_SETUP_LANDLOCK | PSB_SETUP_SUBREAPER | PSB_SETUP_SCOPED | PSB_SETUP_NO_WAY_OUT | PSB_SETUP_LISTENER;
static const uint32_t EXEC_FLAGS = PSB_EXEC_ONESHOT | PSB_EXEC_TERMINAL | PSB_EXEC_BODY_FD | PSB_EXEC_QUIET;

int check_setup(const void *message, size_t size) {
    const struct psb_setup *setup = message;
    size_t instructions;
    if (size < sizeof *setup || setup->flags & ~SETUP_FLAGS) return -1;
    instructions = (size_t)setup->filter_count + setup->late_count;
    if (instructions > PSB_MAX_FILTER) return -1;
    if (setup->flags & PSB_SETUP_LISTENER && !setup->filter_count) return -1;
    return size == sizeof *setup + instructions * sizeof(struct bpf_instruction) ? 0 : -1;
}

int check_exec(const void *message, size_t size) {
    const struct psb_exec *exec = message;
    size_t inline_size, texts;
    if (size < sizeof *exec || exec->n_fds > PSB_MAX_FDS || exec->body_size > PSB_MAX_BODY) return -1;
    if (!exec->n_argv || !exec->n_paths || exec->flags & ~EXEC_FLAGS) return -1;
    texts = (size_t)1 + exec->n_paths + exec->n_argv + exec->n_env;
    if (texts > exec->body_size) return -1; /* each is a byte at least: nothing is ever made room for in vain */
    inline_size = exec->flags & PSB_EXEC_BODY_FD ? 0 : exec->body_size;
    return size == sizeof *exec + inline_size ? 0 : -1;
}

int check_signal(const void *message, size_t size) {
    const struct psb_signal *request = message;
    if (size != sizeof *request) return -1;
    switch (request->scope) {
    case PSB_SIGNAL_ONE:
    case PSB_SIGNAL_SESSION:
    case PSB_SIGNAL_ALL: return 0;
    default: return -1;
    }
}

int count_fds(const struct control *control, size_t size) {
    const size_t head = offsetof(struct control, fds),
                 most = head + sizeof control->fds; /* the struct ends in padding */
    if (size > most) size = most;
    if (size < head || control->level != SOL_SOCKET || control->type != SCM_RIGHTS) return 0;
    if (size > control->size) size = control->size; /* the kernel pads it, too */
    return size < head ? 0 : (int)((size - head) / sizeof control->fds[0]);
}

size_t count_pointers(const struct psb_exec *exec) {
    return (size_t)exec->n_paths + 1 + exec->n_argv + 1 + exec->n_env + 1;
}

struct cursor {
    const uint8_t *at, *end;
};

static const void *take(struct cursor *cursor, size_t count, size_t each) {
    const void *start = cursor->at;
    size_t left = (size_t)(cursor->end - cursor->at);
    if (count > left / each) return NULL;
    cursor->at += count * each;
    return start;
}

static const char *take_text(struct cursor *cursor) {
    const uint8_t *start = cursor->at;
    while (cursor->at < cursor->end)
        if (!*cursor->at++) return (const char *)start;
    return NULL;
}

static const char **take_texts(struct cursor *cursor, uint32_t count, const char ***pointers) {
    const char **first = *pointers;
    while (count--) {
        const char *text = take_text(cursor);
        if (!text) return NULL;
        *(*pointers)++ = text;
    }
    *(*pointers)++ = NULL;
    return first;
}

/* Numbers that a descriptor can have: the child looks for room above the highest, so that must be a number too. */
static int are_descriptors(const int32_t *targets, uint32_t count) {
    while (count--)
        if (targets[count] < 0 || targets[count] == INT32_MAX) return 0;
    return 1;
}

int parse_order(const struct psb_exec *exec, const void *body, const char **pointers, struct order *order) {
    struct cursor cursor = {body, (const uint8_t *)body + exec->body_size};
    order->flags = exec->flags;
    order->id = exec->id;
    order->n_fds = exec->n_fds;
    order->n_limits = exec->n_limits;
    order->n_paths = exec->n_paths;
    order->n_argv = exec->n_argv;
    order->n_env = exec->n_env;
    order->walltime_ms = exec->walltime_ms;
    order->grace_ms = exec->grace_ms;
    /* An even number of them: what follows is aligned. */
    order->targets = take(&cursor, exec->n_fds + (exec->n_fds & 1), sizeof(int32_t));
    if (!order->targets || !are_descriptors(order->targets, exec->n_fds)) return -1;
    order->limits = take(&cursor, exec->n_limits, sizeof(struct psb_limit));
    if (!order->limits) return -1;
    order->cwd = take_text(&cursor);
    if (!order->cwd) return -1;
    order->paths = take_texts(&cursor, exec->n_paths, &pointers);
    if (!order->paths) return -1;
    order->argv = take_texts(&cursor, exec->n_argv, &pointers);
    if (!order->argv) return -1;
    order->envp = take_texts(&cursor, exec->n_env, &pointers);
    return order->envp && cursor.at == cursor.end ? 0 : -1;
}
