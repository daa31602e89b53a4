/* The order of a command (struct psb_exec), as pysandbox/launch/orders.py makes it. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "order.h"

extern char **environ;

static size_t count_texts(char *const *texts) {
    size_t count = 0;
    while (texts[count]) count++;
    return count;
}

static void add_table(struct text *body, const struct kept *kept, enum psb_kept_section_name name) {
    const uint32_t *row = table(kept, name);
    size_t i;
    for (i = 0; i < count_of(kept, name); i++) add_whole(body, text_at(kept, row[i]));
}

/* Each variable of the caller's that is passed through and there: how many. */
static uint32_t add_passed(struct text *body, const struct kept *kept) {
    const uint32_t *row = table(kept, PSB_KEPT_PASSED);
    uint32_t count = 0;
    size_t i;
    for (i = 0; i < count_of(kept, PSB_KEPT_PASSED); i++) {
        const char *name = text_at(kept, row[i]), *value = getenv(name);
        if (!value) continue;
        add_text(body, name);
        add_text(body, "=");
        add_whole(body, value);
        count++;
    }
    return count;
}

int are_given(const struct run *run) {
    const struct psb_kept_given *row = table(run->kept, PSB_KEPT_GIVEN);
    size_t i;
    for (i = 0; i < count_of(run->kept, PSB_KEPT_GIVEN); i++) {
        if (row[i].flag >= run->n_flags || row[i].at > strlen(run->flags[row[i].flag])) return 0;
        if (!strchr(run->flags[row[i].flag] + row[i].at, '=')) return 0;
    }
    return 1;
}

static uint32_t add_given(struct text *body, const struct run *run) {
    const struct psb_kept_given *row = table(run->kept, PSB_KEPT_GIVEN);
    const size_t count = count_of(run->kept, PSB_KEPT_GIVEN);
    size_t i;
    for (i = 0; i < count; i++) add_whole(body, run->flags[row[i].flag] + row[i].at);
    return (uint32_t)count;
}

static void make_body(struct text *body, struct psb_exec *exec, const struct run *run) {
    static const int32_t targets[4] = {0, 1, 2, 0}; /* an even number of them */
    const struct kept *kept = run->kept;
    size_t i;
    add_bytes(body, targets, sizeof targets);
    add_bytes(body, table(kept, PSB_KEPT_LIMITS), count_of(kept, PSB_KEPT_LIMITS) * sizeof(struct psb_limit));
    add_whole(body, text_named(kept, PSB_TEXT_CWD));
    add_table(body, kept, PSB_KEPT_PATHS);
    for (i = 0; run->argv[i]; i++) add_whole(body, run->argv[i]);
    add_table(body, kept, PSB_KEPT_ENV);
    exec->n_env = (uint32_t)count_of(kept, PSB_KEPT_ENV) + add_passed(body, kept);
    exec->n_env += add_given(body, run);
    exec->n_argv = (uint32_t)count_texts(run->argv);
    exec->n_paths = (uint32_t)count_of(kept, PSB_KEPT_PATHS);
    exec->n_limits = (uint32_t)count_of(kept, PSB_KEPT_LIMITS);
    exec->body_size = (uint32_t)body->size;
}

static int send_message(const struct run *run, const struct text *message, const int *fds, size_t n_fds) {
    int result;
    do result = psb_send(run->cage.control, message->bytes, message->size, fds, n_fds);
    while (result == -EINTR);
    return result;
}

/* Longer than a message: the body travels in a memfd. */
static int send_in_file(const struct run *run, struct psb_exec *exec, const struct text *body, int report) {
    const int file = memfd_create("pysandbox-order", MFD_CLOEXEC), *child = run->streams.child;
    const int fds[] = {report, file, child[0], child[1], child[2]};
    struct text message = {0};
    size_t at = 0;
    int result = file < 0 ? -errno : 0;
    while (!result && at < body->size) {
        const ssize_t some = write(file, body->bytes + at, body->size - at);
        if (some < 0 && errno != EINTR) result = -errno;
        if (some > 0) at += (size_t)some;
    }
    exec->flags |= PSB_EXEC_BODY_FD;
    add_bytes(&message, exec, sizeof *exec);
    if (!result) result = message.failed ? -ENOMEM : send_message(run, &message, fds, 5);
    free(message.bytes);
    if (file >= 0) close(file);
    return result;
}

static int send_whole(const struct run *run, const struct psb_exec *exec, const struct text *body, int report) {
    const int *child = run->streams.child;
    const int fds[] = {report, child[0], child[1], child[2]};
    struct text message = {0};
    int result;
    add_bytes(&message, exec, sizeof *exec);
    add_bytes(&message, body->bytes, body->size);
    result = message.failed ? -ENOMEM : send_message(run, &message, fds, 4);
    free(message.bytes);
    return result;
}

int send_order(const struct run *run, int report) {
    const struct psb_kept *head = run->kept->head;
    const uint32_t terminal = head->flags & PSB_KEPT_TERMINAL ? PSB_EXEC_TERMINAL : 0;
    struct psb_exec exec = {.kind = PSB_MESSAGE_EXEC,
                            .flags = PSB_EXEC_ONESHOT | terminal,
                            .id = 1,
                            .n_fds = 3,
                            .walltime_ms = head->walltime_ms,
                            .grace_ms = head->grace_ms};
    struct text body = {0};
    int result;
    make_body(&body, &exec, run);
    if (body.failed)
        result = -ENOMEM;
    else if (body.size > PSB_MAX_BODY)
        result = -E2BIG;
    else
        result = body.size > PSB_MAX_INLINE ? send_in_file(run, &exec, &body, report)
                                            : send_whole(run, &exec, &body, report);
    free(body.bytes);
    return result;
}
