/* libFuzzer: whatever arrives as a message, the parsers of csrc/init/orders.c read within it, and what they hand on is
 * inside the body and ends there. Message and body are copies of their exact size, so that ASan sees one byte too many.
 */
#include <stdlib.h>
#include <string.h>

#include "../init/init.h"

#define MOST_POINTERS (1 << 16)

static void demand(int condition) {
    if (!condition) abort();
}

static uint8_t *exact_copy(const uint8_t *data, size_t size) {
    uint8_t *copy = malloc(size ? size : 1);
    demand(copy != NULL);
    memcpy(copy, data, size);
    return copy;
}

/* Every text lies in the body with its end, and the list ends with NULL. */
static void check_texts(const char *const *texts, uint32_t count, const uint8_t *body, size_t size) {
    uint32_t i;
    for (i = 0; i < count; i++) {
        const uint8_t *text = (const uint8_t *)texts[i];
        demand(text >= body && text < body + size);
        demand(memchr(text, 0, (size_t)(body + size - text)) != NULL);
    }
    demand(texts[count] == NULL);
}

static void check_order(const struct order *order, const uint8_t *body, size_t size) {
    const uint8_t *targets = (const uint8_t *)order->targets, *limits = (const uint8_t *)order->limits;
    demand(targets + order->n_fds * sizeof(int32_t) <= body + size);
    demand(limits + order->n_limits * sizeof(struct psb_limit) <= body + size);
    demand((const uint8_t *)order->cwd >= body && (const uint8_t *)order->cwd < body + size);
    check_texts(order->paths, order->n_paths, body, size);
    check_texts(order->argv, order->n_argv, body, size);
    check_texts(order->envp, order->n_env, body, size);
}

static void parse_one(const struct psb_exec *exec, const uint8_t *body) {
    static struct order order;
    const char **pointers;
    if (count_pointers(exec) > MOST_POINTERS) return;
    pointers = calloc(count_pointers(exec), sizeof *pointers);
    demand(pointers != NULL);
    if (!parse_order(exec, body, pointers, &order)) check_order(&order, body, exec->body_size);
    free(pointers);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    uint8_t *message = exact_copy(data, size);
    check_setup(message, size);
    check_signal(message, size);
    if (size >= sizeof(struct psb_exec)) {
        struct psb_exec exec;
        uint8_t *body = exact_copy(data + sizeof exec, size - sizeof exec);
        memcpy(&exec, message, sizeof exec);
        if (exec.flags & PSB_EXEC_BODY_FD) exec.body_size = (uint32_t)(size - sizeof exec); /* as map_body demands */
        if (!check_exec(&exec, exec.flags & PSB_EXEC_BODY_FD ? sizeof exec : size)) parse_one(&exec, body);
        free(body);
    }
    free(message);
    return 0;
}
