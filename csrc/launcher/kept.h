/* A kept plan in memory: read once, signed as it should be, every offset and text in it checked (../abi.h). */
#ifndef PSB_LAUNCHER_KEPT_H
#define PSB_LAUNCHER_KEPT_H

#include <stddef.h>
#include <stdint.h>

#include "../abi.h"
#include "text.h"

struct kept {
    uint8_t *bytes; /* all of the file */
    const struct psb_kept *head;
    const char *text;
    size_t text_size;
    struct psb_plan *plan; /* its pointers lead into `bytes` */
};

/* Checks bytes that were read, and puts pointers in the place of offsets. */
int check_kept(struct kept *kept, size_t size);
/* Whether the signature is that of `secret` (32 bytes). */
int is_signed(const uint8_t *bytes, size_t size, const uint8_t *secret);

static inline void *table(const struct kept *kept, enum psb_kept_section_name name) {
    return kept->bytes + kept->head->sections[name].at;
}

static inline size_t count_of(const struct kept *kept, enum psb_kept_section_name name) {
    return kept->head->sections[name].count;
}

static inline const char *text_at(const struct kept *kept, uint32_t at) {
    return kept->text + at;
}

/* NULL for PSB_NO_TEXT. */
static inline const char *value_of(const struct kept *kept, const struct psb_kept_pair *pair) {
    return pair->value == PSB_NO_TEXT ? NULL : text_at(kept, pair->value);
}

static inline const char *text_named(const struct kept *kept, enum psb_kept_text_name name) {
    return kept->text + kept->head->texts[name];
}

#endif
