/* The parser of a kept plan. Pure: no system call, no state, every offset and count checked before use. */
#include "kept.h"

#include <string.h>

#include "../host/probe/seen.h"
#include "sha256.h"

#ifndef PSB_ABI
#define PSB_ABI "unknown"
#endif

/* What stands in a table: the size of a row, and at which of its bytes it names texts (uint32_t) or has a pointer. */
struct shape {
    uint32_t row;
    uint8_t n_texts, n_pointers;
    uint8_t optional; /* the last text may be none */
    uint8_t at[4];
};

#define AT(type, field) offsetof(struct type, field)
#define PAIRS                                                                                                          \
    {                                                                                                                  \
        sizeof(struct psb_kept_pair), 2, 0, 1, {                                                                       \
            AT(psb_kept_pair, name), AT(psb_kept_pair, value)                                                          \
        }                                                                                                              \
    }
#define TEXTS                                                                                                          \
    {                                                                                                                  \
        sizeof(uint32_t), 1, 0, 0, {                                                                                   \
            0                                                                                                          \
        }                                                                                                              \
    }
#define BYTES                                                                                                          \
    {                                                                                                                  \
        1, 0, 0, 0, {                                                                                                  \
            0                                                                                                          \
        }                                                                                                              \
    }

static const struct shape SHAPES[] = {
    [PSB_KEPT_KEY] = BYTES,
    [PSB_KEPT_TEXT] = BYTES,
    [PSB_KEPT_PLAN] = {sizeof(struct psb_plan), 0, 1, 0, {AT(psb_plan, staging)}},
    [PSB_KEPT_MOUNTS] =
        {sizeof(struct psb_mount), 0, 3, 0, {AT(psb_mount, source), AT(psb_mount, target), AT(psb_mount, data)}},
    [PSB_KEPT_RULES] = {sizeof(struct psb_rule), 0, 1, 0, {AT(psb_rule, path)}},
    [PSB_KEPT_LIMITS] = {sizeof(struct psb_limit), 0, 0, 0, {0}},
    [PSB_KEPT_SETUP] = BYTES,
    [PSB_KEPT_VARIABLES] = PAIRS,
    [PSB_KEPT_STAMPS] = {sizeof(struct psb_kept_stamp), 1, 0, 0, {AT(psb_kept_stamp, path)}},
    [PSB_KEPT_PROGRAMS] = PAIRS,
    [PSB_KEPT_PLACES] = {sizeof(struct psb_kept_place), 2, 0, 0, {AT(psb_kept_place, path), AT(psb_kept_place, real)}},
    [PSB_KEPT_SEEN] = {sizeof(struct psb_seen), 0, 1, 0, {AT(psb_seen, path)}},
    [PSB_KEPT_SEARCHED] = {sizeof(struct psb_kept_searched), 1, 0, 0, {AT(psb_kept_searched, directory)}},
    [PSB_KEPT_NAMES] = TEXTS,
    [PSB_KEPT_ABSENT] = {sizeof(struct psb_absent), 0, 2, 0, {AT(psb_absent, tree), AT(psb_absent, name)}},
    [PSB_KEPT_PLANTED] = {sizeof(struct psb_kept_planted),
                          3,
                          0,
                          0,
                          {AT(psb_kept_planted, path), AT(psb_kept_planted, shown), AT(psb_kept_planted, quoted)}},
    [PSB_KEPT_PATHS] = TEXTS,
    [PSB_KEPT_ENV] = TEXTS,
    [PSB_KEPT_PASSED] = TEXTS,
    [PSB_KEPT_GIVEN] = {sizeof(struct psb_kept_given), 0, 0, 0, {0}},
    [PSB_KEPT_WEAKER] = TEXTS,
    [PSB_KEPT_RECORDS] =
        {sizeof(struct psb_kept_record), 2, 0, 0, {AT(psb_kept_record, type), AT(psb_kept_record, data)}},
    [PSB_KEPT_ROUTES] = BYTES,
    [PSB_KEPT_REDIRECT] = BYTES,
    [PSB_KEPT_DOORS] = {sizeof(struct psb_kept_door), 2, 0, 0, {AT(psb_kept_door, kind), AT(psb_kept_door, name)}},
    [PSB_KEPT_WATCHED] = TEXTS,
    [PSB_KEPT_GROUP] = {sizeof(struct psb_kept_place), 2, 0, 0, {AT(psb_kept_place, path), AT(psb_kept_place, real)}},
    [PSB_KEPT_HANDED] = TEXTS,
    [PSB_KEPT_SETTINGS] =
        {sizeof(struct psb_kept_setting), 2, 0, 0, {AT(psb_kept_setting, file), AT(psb_kept_setting, value)}},
};
_Static_assert(sizeof SHAPES / sizeof *SHAPES == PSB_KEPT_SECTIONS, "each table has a shape");

/* In the same time for every wrong one. */
int is_signed(const uint8_t *bytes, size_t size, const uint8_t *secret) {
    uint8_t expected[SHA256_SIZE];
    unsigned difference = 0;
    size_t i;
    if (size < sizeof(struct psb_kept)) return 0;
    hmac_sha256(secret, 32, bytes + sizeof expected, size - sizeof expected, expected);
    for (i = 0; i < sizeof expected; i++) difference |= (unsigned)(bytes[i] ^ expected[i]);
    return !difference;
}

static int sections_fit(const struct psb_kept *head) {
    size_t i;
    for (i = 0; i < PSB_KEPT_SECTIONS; i++) {
        const struct psb_kept_section *section = &head->sections[i];
        if (section->at % 8 || section->at < sizeof *head || section->at > head->size) return 0;
        if (section->count > (head->size - section->at) / SHAPES[i].row) return 0;
    }
    return 1;
}

static int is_text(const struct kept *kept, uint64_t at) {
    return at < kept->text_size;
}

/* The row's texts; its pointers hold offsets until here, and lead there from here on. */
static int place_row(struct kept *kept, const struct shape *shape, uint8_t *row) {
    int i;
    for (i = 0; i < shape->n_texts; i++) {
        uint32_t at;
        memcpy(&at, row + shape->at[i], sizeof at);
        if (is_text(kept, at)) continue;
        if (at != PSB_NO_TEXT || !shape->optional || i + 1 != shape->n_texts) return 0;
    }
    for (i = 0; i < shape->n_pointers; i++) {
        uint64_t at;
        const char *to;
        memcpy(&at, row + shape->at[i], sizeof at);
        if (!is_text(kept, at)) return 0;
        to = kept->text + at;
        memcpy(row + shape->at[i], &to, sizeof to);
    }
    return 1;
}

static int place_rows(struct kept *kept) {
    size_t name, i;
    for (name = 0; name < PSB_KEPT_SECTIONS; name++) {
        const struct shape *shape = &SHAPES[name];
        if (!shape->n_texts && !shape->n_pointers) continue;
        for (i = 0; i < count_of(kept, name); i++)
            if (!place_row(kept, shape, (uint8_t *)table(kept, name) + i * shape->row)) return 0;
    }
    for (i = 0; i < PSB_TEXTS; i++)
        if (!is_text(kept, kept->head->texts[i])) return 0;
    return 1;
}

/* Tables lie apart from each other, so that no row is placed twice. */
static int are_apart(const struct psb_kept *head) {
    uint64_t end = sizeof *head;
    size_t i;
    for (i = 0; i < PSB_KEPT_SECTIONS; i++) {
        if (head->sections[i].at < end) return 0;
        end = head->sections[i].at + (uint64_t)head->sections[i].count * SHAPES[i].row;
    }
    return 1;
}

static int searches_fit(const struct kept *kept) {
    const struct psb_kept_searched *row = table(kept, PSB_KEPT_SEARCHED);
    const size_t names = count_of(kept, PSB_KEPT_NAMES);
    size_t i;
    for (i = 0; i < count_of(kept, PSB_KEPT_SEARCHED); i++)
        if (row[i].first > names || row[i].count > names - row[i].first) return 0;
    return 1;
}

static int place_plan(struct kept *kept) {
    struct psb_plan *plan = table(kept, PSB_KEPT_PLAN);
    if (plan->n_mounts != count_of(kept, PSB_KEPT_MOUNTS)) return 0;
    if (plan->landlock.n_rules != count_of(kept, PSB_KEPT_RULES)) return 0;
    if (plan->cgroup_fd != -1) return 0; /* a number of somebody else's */
    plan->idmap_fd = -1;
    plan->hostname = NULL;
    plan->mounts = table(kept, PSB_KEPT_MOUNTS);
    plan->landlock.rules = table(kept, PSB_KEPT_RULES);
    kept->plan = plan;
    return 1;
}

int check_kept(struct kept *kept, size_t size) {
    const struct psb_kept *head = (const void *)kept->bytes;
    if (size < sizeof *head || head->size != size || head->version != PSB_KEPT_VERSION) return -1;
    if (strncmp(head->abi, PSB_ABI, sizeof head->abi)) return -1;
    if (!sections_fit(head) || !are_apart(head) || head->sections[PSB_KEPT_PLAN].count != 1) return -1;
    kept->head = head;
    kept->text = table(kept, PSB_KEPT_TEXT);
    kept->text_size = count_of(kept, PSB_KEPT_TEXT);
    if (!kept->text_size || kept->text[kept->text_size - 1]) return -1;
    if (count_of(kept, PSB_KEPT_PLANTED) != count_of(kept, PSB_KEPT_ABSENT)) return -1;
    if (count_of(kept, PSB_KEPT_DOORS) > PSB_KEPT_MOST_DOORS) return -1;
    if (count_of(kept, PSB_KEPT_WATCHED) > PSB_KEPT_MOST_WATCHED) return -1;
    if (count_of(kept, PSB_KEPT_GROUP) > 1) return -1;
    return place_rows(kept) && searches_fit(kept) && place_plan(kept) ? 0 : -1;
}
