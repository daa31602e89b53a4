/* check_kept (csrc/launcher/kept.c): in what is accepted every table and every text is whole. Input: the file, as if
 * its signature were right. */
#include "../launcher/kept.h"

#include "../host/probe/seen.h"
#include "require.h"

static size_t read_text(const struct kept *kept, const char *text) {
    REQUIRE(text >= kept->text && text < kept->text + kept->text_size);
    return strlen(text);
}

static size_t read_texts(const struct kept *kept, enum psb_kept_section_name name) {
    const uint32_t *row = table(kept, name);
    size_t i, sum = 0;
    for (i = 0; i < count_of(kept, name); i++) sum += read_text(kept, text_at(kept, row[i]));
    return sum;
}

static size_t read_pairs(const struct kept *kept, enum psb_kept_section_name name) {
    const struct psb_kept_pair *row = table(kept, name);
    size_t i, sum = 0;
    for (i = 0; i < count_of(kept, name); i++) {
        sum += read_text(kept, text_at(kept, row[i].name));
        if (value_of(kept, &row[i])) sum += read_text(kept, value_of(kept, &row[i]));
    }
    return sum;
}

static size_t read_plan(const struct kept *kept) {
    const struct psb_plan *plan = kept->plan;
    size_t i, sum = read_text(kept, plan->staging);
    REQUIRE(!plan->hostname && plan->idmap_fd == -1 && plan->cgroup_fd == -1);
    for (i = 0; i < plan->n_mounts; i++)
        sum += read_text(kept, plan->mounts[i].source) + read_text(kept, plan->mounts[i].target) +
               read_text(kept, plan->mounts[i].data);
    for (i = 0; i < plan->landlock.n_rules; i++) sum += read_text(kept, plan->landlock.rules[i].path);
    return sum;
}

static size_t read_searched(const struct kept *kept) {
    const struct psb_kept_searched *row = table(kept, PSB_KEPT_SEARCHED);
    const uint32_t *names = table(kept, PSB_KEPT_NAMES);
    size_t i, j, sum = 0;
    for (i = 0; i < count_of(kept, PSB_KEPT_SEARCHED); i++)
        for (j = 0; j < row[i].count; j++) sum += read_text(kept, text_at(kept, names[row[i].first + j]));
    return sum;
}

static size_t read_absent(const struct kept *kept) {
    const struct psb_absent *row = table(kept, PSB_KEPT_ABSENT);
    const struct psb_kept_planted *planted = table(kept, PSB_KEPT_PLANTED);
    size_t i, sum = 0;
    for (i = 0; i < count_of(kept, PSB_KEPT_ABSENT); i++)
        sum += read_text(kept, row[i].tree) + read_text(kept, row[i].name) +
               read_text(kept, text_at(kept, planted[i].shown));
    return sum;
}

static size_t read_doors(const struct kept *kept) {
    const struct psb_kept_door *row = table(kept, PSB_KEPT_DOORS);
    size_t i, sum = 0;
    REQUIRE(count_of(kept, PSB_KEPT_DOORS) <= PSB_KEPT_MOST_DOORS);
    REQUIRE(count_of(kept, PSB_KEPT_WATCHED) <= PSB_KEPT_MOST_WATCHED);
    for (i = 0; i < count_of(kept, PSB_KEPT_DOORS); i++)
        sum += read_text(kept, text_at(kept, row[i].kind)) + read_text(kept, text_at(kept, row[i].name));
    return sum;
}

static size_t read_group(const struct kept *kept) {
    const struct psb_kept_place *group = table(kept, PSB_KEPT_GROUP);
    const struct psb_kept_setting *row = table(kept, PSB_KEPT_SETTINGS);
    size_t i, sum = read_text(kept, text_named(kept, PSB_TEXT_OWN_GROUP)) + read_texts(kept, PSB_KEPT_HANDED);
    REQUIRE(count_of(kept, PSB_KEPT_GROUP) <= 1);
    if (count_of(kept, PSB_KEPT_GROUP)) sum += read_text(kept, text_at(kept, group->path));
    for (i = 0; i < count_of(kept, PSB_KEPT_SETTINGS); i++)
        sum += read_text(kept, text_at(kept, row[i].file)) + read_text(kept, text_at(kept, row[i].value));
    return sum;
}

static size_t read_all(const struct kept *kept) {
    return read_texts(kept, PSB_KEPT_ENV) + read_texts(kept, PSB_KEPT_PATHS) + read_texts(kept, PSB_KEPT_PASSED) +
           read_pairs(kept, PSB_KEPT_VARIABLES) + read_pairs(kept, PSB_KEPT_PROGRAMS) + read_plan(kept) +
           read_searched(kept) + read_absent(kept) + read_doors(kept) + read_texts(kept, PSB_KEPT_WATCHED) +
           read_group(kept) + read_text(kept, text_named(kept, PSB_TEXT_INIT));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct kept kept = {.bytes = exact_copy(data, size)};
    if (!check_kept(&kept, size)) REQUIRE(read_all(&kept) < SIZE_MAX);
    free(kept.bytes);
    return 0;
}
