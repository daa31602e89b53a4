/* A short list that is searched from its begin. */
#include "repeat_table.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static int is_said(const struct repeat_words *words, const char *said, size_t size) {
    return words->said && words->size == size && !memcmp(words->said, said, size);
}

static struct repeat_words *find(struct repeat_words *table, enum psb_repeat_meaning meaning, const char *said,
                                 size_t size) {
    size_t i;
    for (i = 0; i < MOST_REPEATS; i++)
        if (table[i].meaning == meaning && is_said(&table[i], said, size)) return &table[i];
    return NULL;
}

const struct repeat_words *find_words(struct repeat_door *door, enum psb_repeat_meaning meaning, const char *said,
                                      size_t size) {
    return find(door->table, meaning, said, size);
}

int learn_words(struct repeat_door *door, enum psb_repeat_meaning meaning, const char *said, size_t size,
                const char *answer, size_t answer_size) {
    struct repeat_words *words;
    char *copy;
    if (!size || size > LONGEST_REPEAT || !answer_size || answer_size > 2 * LONGEST_REPEAT) return -EMSGSIZE;
    copy = malloc(size + answer_size);
    if (!copy) return -ENOMEM;
    words = find(door->table, meaning, said, size);
    if (!words) words = &door->table[door->learned++ % MOST_REPEATS];
    free(words->said);
    memcpy(copy, said, size);
    memcpy(copy + size, answer, answer_size);
    *words = (struct repeat_words){copy, copy + size, size, answer_size, meaning};
    return 0;
}

void forget_words(struct repeat_door *door, const char *said, size_t size) {
    size_t i;
    for (i = 0; i < MOST_REPEATS; i++) {
        struct repeat_words *words = &door->table[i];
        if (said && !is_said(words, said, size)) continue;
        free(words->said);
        *words = (struct repeat_words){.said = NULL};
    }
}
