/* check_exec and parse_order (csrc/init/orders.c), used as exec.c uses them: whatever is accepted points into the body
 * and nowhere else. Input: the message; with PSB_EXEC_BODY_FD, its header and then what the descriptor holds. */
#include "../init/init.h"
#include "require.h"

size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max_size);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned int seed);

struct body {
    const uint8_t *at, *end;
};

static void require_inside(const struct body *body, const void *from, size_t size) {
    const uint8_t *at = from;
    REQUIRE(at >= body->at && at <= body->end && size <= (size_t)(body->end - at));
}

static const uint8_t *require_text(const struct body *body, const char *text) {
    const uint8_t *at = (const uint8_t *)text, *end;
    REQUIRE(at >= body->at && at < body->end);
    end = memchr(at, 0, (size_t)(body->end - at));
    REQUIRE(end);
    return end + 1;
}

/* Each text begins where the one before it ends; after the last there is a NULL. */
static const uint8_t *require_texts(const struct body *body, const char *const *texts, size_t count,
                                    const uint8_t *next) {
    size_t i;
    for (i = 0; i < count; i++) {
        REQUIRE((const uint8_t *)texts[i] == next);
        next = require_text(body, texts[i]);
    }
    REQUIRE(!texts[count]);
    return next;
}

static void require_order(const struct order *order, const struct psb_exec *exec, const struct body *body,
                          const char *const *pointers, size_t n_pointers) {
    const uint8_t *next;
    uint32_t i;
    require_inside(body, order->targets, order->n_fds * sizeof *order->targets);
    require_inside(body, order->limits, order->n_limits * sizeof *order->limits);
    REQUIRE((uintptr_t)order->targets % _Alignof(int32_t) == 0 && (uintptr_t)order->limits % _Alignof(uint64_t) == 0);
    for (i = 0; i < order->n_fds; i++) REQUIRE(order->targets[i] >= 0 && order->targets[i] < INT32_MAX);
    REQUIRE(order->n_fds == exec->n_fds && order->n_paths == exec->n_paths && order->n_argv && order->n_paths);
    REQUIRE(order->paths == pointers && order->argv == order->paths + order->n_paths + 1);
    REQUIRE(order->envp == order->argv + order->n_argv + 1 && order->envp + order->n_env + 1 == pointers + n_pointers);
    next = require_text(body, order->cwd);
    next = require_texts(body, order->paths, order->n_paths, next);
    next = require_texts(body, order->argv, order->n_argv, next);
    next = require_texts(body, order->envp, order->n_env, next);
    REQUIRE(next == body->end);
}

static void parse(const struct psb_exec *exec, const uint8_t *bytes) {
    const size_t n_pointers = count_pointers(exec);
    const struct body body = {bytes, bytes + exec->body_size};
    const char **pointers = malloc(n_pointers * sizeof *pointers);
    struct order *order = malloc(sizeof *order);
    REQUIRE(pointers && order);
    REQUIRE(n_pointers <= (size_t)exec->body_size + 2); /* what is mapped for them is bounded by what was sent */
    if (!parse_order(exec, bytes, pointers, order)) require_order(order, exec, &body, pointers, n_pointers);
    free(order);
    free(pointers);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct psb_exec header = {0};
    int elsewhere;
    size_t message_size;
    void *message, *body;
    if (size >= sizeof header) memcpy(&header, data, sizeof header);
    elsewhere = (header.flags & PSB_EXEC_BODY_FD) != 0;
    message_size = elsewhere ? sizeof header : size;
    message = exact_copy(data, message_size);
    if (!check_exec(message, message_size)) {
        REQUIRE(header.n_fds <= PSB_MAX_FDS && header.body_size <= PSB_MAX_BODY);
        if (!elsewhere) {
            parse(message, (const uint8_t *)message + sizeof header);
        } else if (size - message_size >= header.body_size) { /* less is refused before it is mapped */
            body = exact_copy(data + message_size, header.body_size);
            parse(message, body);
            free(body);
        }
    }
    free(message);
    return 0;
}

/* Most inputs would fail at the size they announce: let it be true more often than not. */
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned int seed) {
    struct psb_exec header;
    size = LLVMFuzzerMutate(data, size, max_size);
    if (size < sizeof header || seed % 8 == 0) return size;
    memcpy(&header, data, sizeof header);
    header.body_size = (uint32_t)(size - sizeof header);
    memcpy(data, &header, sizeof header);
    return size;
}
