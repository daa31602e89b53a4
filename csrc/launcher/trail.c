#include "trail.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "exit_codes.h"
#include "host.h"
#include "relay.h"

#define COMMAND "{\"command\":1,"

int open_trail(struct trail *trail, const struct kept *kept) {
    trail->kept = kept;
    if (!(kept->head->flags & PSB_KEPT_AUDITED)) return 0;
    if (open_stream(&trail->stream, text_named(kept, PSB_TEXT_AUDIT))) return -1;
    trail->is_open = 1;
    return 0;
}

void close_trail(struct trail *trail) {
    if (trail->is_open) close_stream(&trail->stream);
    trail->is_open = 0;
}

static int add_arguments(struct text *to, char *const *argv) {
    size_t i;
    for (i = 0; argv[i]; i++) {
        add_text(to, i ? "," : "[");
        if (add_json(to, argv[i])) return -1;
    }
    add_text(to, "]");
    return 0;
}

/* A record as it was kept, with what is this run's own in its slots. */
static int fill_slots(struct text *to, const struct trail *trail, const char *kept, char *const *argv) {
    for (; *kept; kept++) {
        if (*kept == PSB_SLOT_ARGV) {
            if (add_arguments(to, argv)) return -1;
        } else if (*kept == PSB_SLOT_SHORT_ID) {
            add_bytes(to, trail->id, 6);
        } else if (*kept == PSB_SLOT_ID) {
            add_bytes(to, trail->id, CAGE_ID);
        } else {
            add_bytes(to, kept, 1);
        }
    }
    return 0;
}

static int record_kept(struct trail *trail, const struct psb_kept_record *record, char *const *argv) {
    struct text data = {0};
    int result = -EILSEQ;
    if (!fill_slots(&data, trail, text_at(trail->kept, record->data), argv))
        result = append_record(&trail->stream, text_at(trail->kept, record->type), &data);
    free(data.bytes);
    return result;
}

int record_start(struct trail *trail, char *const *argv) {
    const struct psb_kept_record *record = table(trail->kept, PSB_KEPT_RECORDS);
    struct timespec now;
    size_t i;
    clock_gettime(CLOCK_MONOTONIC, &trail->began);
    clock_gettime(CLOCK_REALTIME, &now);
    trail->since = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
    if (!trail->is_open) return 0;
    for (i = 0; i < count_of(trail->kept, PSB_KEPT_RECORDS); i++) {
        const int result = record_kept(trail, &record[i], argv);
        if (result) return result;
        if (record[i].durable) trail->has_begun = 1;
    }
    return sync_stream(&trail->stream);
}

/* ---- the end ----------------------------------------------------------------------------------------------------- */

static void add_id(struct text *to, const struct trail *trail) {
    add_text(to, "\"invocation_id\":\"");
    add_text(to, trail->id);
    add_text(to, "\"");
}

static int append(struct trail *trail, const char *type, struct text *data) {
    const int result = append_record(&trail->stream, type, data);
    free(data->bytes);
    return result;
}

int record_failure(struct trail *trail, const struct psb_error *error) {
    struct text data = {0};
    if (!trail->is_open || !trail->has_begun) return 0;
    trail->has_begun = 0;
    add_text(&data, COMMAND "\"errno\":");
    add_number(&data, (uint64_t)error->number);
    add_text(&data, ",");
    add_id(&data, trail);
    add_text(&data, ",\"path\":");
    if (!*error->path || add_json(&data, error->path)) add_text(&data, "null");
    add_text(&data, ",\"step\":\"");
    add_text(&data, psb_step_name(error->step));
    add_text(&data, "\"}");
    return append(trail, "cage.start_failed", &data);
}

static int record_killed(struct trail *trail, const char *reason) {
    struct text data = {0};
    add_text(&data, COMMAND);
    add_id(&data, trail);
    add_text(&data, ",\"reason\":\"");
    add_text(&data, reason);
    add_text(&data, "\"}");
    return append(trail, "subagent.killed", &data);
}

static int record_violation(struct trail *trail, const char *limit, const char *value) {
    struct text data = {0};
    add_text(&data, "{");
    add_id(&data, trail);
    add_text(&data, ",\"limit\":\"");
    add_text(&data, limit);
    add_text(&data, "\"");
    if (*value) {
        add_text(&data, ",\"value\":");
        add_text(&data, value);
    }
    add_text(&data, "}");
    return append(trail, "policy.violation", &data);
}

static const char *sentence_part(const struct kept *kept, size_t row, int quoted) {
    const struct psb_kept_planted *planted = table(kept, PSB_KEPT_PLANTED);
    return text_at(kept, quoted ? planted[row].quoted : planted[row].shown);
}

void add_planted_sentence(struct text *to, const struct kept *kept, const uint8_t *planted, int quoted) {
    size_t i, count = 0;
    const char *it;
    add_text(to, "the command made ");
    for (i = 0; i < count_of(kept, PSB_KEPT_ABSENT); i++) {
        if (!planted[i]) continue;
        if (count++) add_text(to, ", ");
        add_text(to, sentence_part(kept, i, quoted));
    }
    it = count == 1 ? "it" : "them";
    add_text(to, ": tools of this host act on ");
    add_text(to, it);
    add_text(to, ", outside of any cage; look at ");
    add_text(to, it);
    add_text(to, " before you go on, or remove ");
    add_text(to, it);
}

static int record_planted(struct trail *trail, const uint8_t *planted) {
    const struct psb_kept_planted *row = table(trail->kept, PSB_KEPT_PLANTED);
    struct text data = {0};
    size_t i, count = 0;
    add_text(&data, COMMAND);
    add_id(&data, trail);
    add_text(&data, ",\"key\":\"filesystem.unguarded\",\"paths\":[");
    for (i = 0; i < count_of(trail->kept, PSB_KEPT_ABSENT); i++) {
        if (!planted[i]) continue;
        if (count++) add_text(&data, ",");
        add_text(&data, text_at(trail->kept, row[i].path));
    }
    add_text(&data, "],\"reason\":\"");
    add_planted_sentence(&data, trail->kept, planted, 1);
    add_text(&data, "\"}");
    return append(trail, "sandbox.planted", &data);
}

/* ---- how it ended ------------------------------------------------------------------------------------------------ */

static int code_of(const struct psb_report *final) {
    if (!final) return -SIGKILL;
    return WIFSIGNALED(final->status) ? -WTERMSIG(final->status) : WEXITSTATUS(final->status);
}

static const char *reason_of(const struct trail *trail, const struct psb_report *final, int code) {
    if (!final) return "cancelled";
    if (final->timed_out || trail->blame == BLAME_TIMEOUT) return "timeout";
    if (trail->blame == BLAME_CANCELLED && code < 0) return "cancelled";
    return code >= 0 ? "exited" : code == -SIGSYS ? "seccomp" : "signaled";
}

static uint64_t milliseconds_since(const struct timespec *began) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)((now.tv_sec - began->tv_sec) * 1000000 + (now.tv_nsec - began->tv_nsec) / 1000 + 500) / 1000;
}

static int record_exit(struct trail *trail, const struct psb_report *final, const char *reason, int code) {
    struct text data = {0};
    const int told = !strcmp(reason, "timeout") ? OUT_OF_TIME : code >= 0 ? code : BY_SIGNAL - code;
    add_text(&data, COMMAND "\"duration_ms\":");
    add_number(&data, milliseconds_since(&trail->began));
    add_text(&data, ",\"exit_code\":");
    add_number(&data, (uint64_t)told);
    add_text(&data, ",");
    add_id(&data, trail);
    add_text(&data, ",\"max_rss_kb\":");
    add_number(&data, final ? final->max_rss_kb : 0);
    add_text(&data, ",\"reason\":\"");
    add_text(&data, reason);
    add_text(&data, "\",\"system_ms\":");
    add_number(&data, final ? (final->system_us + 500) / 1000 : 0);
    add_text(&data, ",\"user_ms\":");
    add_number(&data, final ? (final->user_us + 500) / 1000 : 0);
    add_text(&data, "}");
    return append(trail, "subagent.exit", &data);
}

/* As pysandbox/audit/ending.py: by force, and what limit that was. */
static int record_force(struct trail *trail, const char *reason) {
    const struct kept *kept = trail->kept;
    int result;
    if (!strcmp(reason, "timeout")) {
        result = record_killed(trail, "walltime_exceeded");
        if (result) return result;
        return record_violation(
            trail, "walltime",
            text_named(kept, trail->blame == BLAME_TIMEOUT ? PSB_TEXT_LIMIT_TIMEOUT : PSB_TEXT_LIMIT_WALLTIME));
    }
    if (!strcmp(reason, "seccomp")) {
        result = record_killed(trail, "seccomp");
        return result ? result : record_violation(trail, "seccomp", text_named(kept, PSB_TEXT_LIMIT_SECCOMP));
    }
    return strcmp(reason, "cancelled") ? 0 : record_killed(trail, "cancelled");
}

int record_end(struct trail *trail, const struct psb_report *final, const uint8_t *planted) {
    const int code = code_of(final);
    const char *reason = reason_of(trail, final, code);
    int result = 0;
    if (!trail->is_open || !trail->has_begun) return 0;
    if (final && final->error.step) return record_failure(trail, &final->error);
    trail->has_begun = 0;
    if (planted) result = record_planted(trail, planted);
    if (!result) result = record_force(trail, reason);
    return result ? result : record_exit(trail, final, reason, code);
}
