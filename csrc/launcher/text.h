/* A text that grows. Want of memory is remembered in `failed`, and asked for once, at the end. */
#ifndef PSB_LAUNCHER_TEXT_H
#define PSB_LAUNCHER_TEXT_H

#include <stddef.h>
#include <stdint.h>

struct text {
    char *bytes; /* free(3) */
    size_t size, room;
    int failed;
};

void add_bytes(struct text *to, const void *bytes, size_t size);
void add_text(struct text *to, const char *text);
/* Adds the NUL that ends it, too. */
void add_whole(struct text *to, const char *text);
void add_number(struct text *to, uint64_t number);
/* Digits are added in front, up to `width`. */
void add_padded(struct text *to, uint64_t number, int width);

/* A text of the caller's as json.dumps writes it, quotes included. -1 for what only Python can tell: text that is not
 * plain UTF-8, in a locale that may have another encoding. */
int add_json(struct text *to, const char *text);

#endif
