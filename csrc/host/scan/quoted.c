/* A line that ends in a soft break goes on with the next: all of such lines together are undone at once, from where the
 * first begins to where the last ends. What is no escape stands for itself. */
#include "quoted.h"

#include "letters.h"
#include "stretches.h"

/* How long the line break is that begins here; 0 when none does. */
static unsigned line_break(const uint8_t *text, uint64_t left) {
    if (left && text[0] == '\n') return 1;
    return left > 1 && text[0] == '\r' && text[1] == '\n' ? 2 : 0;
}

static int is_escape(const uint8_t *text, uint64_t left) {
    return left > 2 && text[0] == '=' && psb_digits(text + 1, 2, 2) == 2;
}

static int is_quoted(const uint8_t *text, uint64_t left) {
    if (line_break(text + 1, left - 1)) return 1;
    return left > 6 && is_escape(text, left) && is_escape(text + 3, left - 3) && text[6] == '=';
}

uint64_t psb_find_quoted(const uint8_t *text, uint64_t size, uint64_t at) {
    for (at = psb_find(text, size, at, '='); at < size; at = psb_find(text, size, at + 1, '='))
        if (is_quoted(text + at, size - at)) return at;
    return size;
}

/* Where the first line ends, from `at` on, that has no soft break; what is before `at` may be read. */
static uint64_t end_of_lines(const uint8_t *text, uint64_t size, uint64_t at) {
    for (at = psb_find(text, size, at, '\n'); at < size; at = psb_find(text, size, at + 1, '\n')) {
        uint64_t last = at;
        if (last > 1 && text[last - 1] == '\r') last--;
        if (!last || text[last - 1] != '=') break;
    }
    return at;
}

static uint64_t unquote(const uint8_t *text, uint64_t size, uint8_t *out) {
    uint64_t at = 0, said = 0;
    while (at < size) {
        unsigned soft = text[at] == '=' ? line_break(text + at + 1, size - at - 1) : 0;
        if (soft) {
            at += 1 + soft;
        } else if (is_escape(text + at, size - at)) {
            out[said++] = (uint8_t)psb_number(text + at + 1, 2, 16);
            at += 3;
        } else {
            out[said++] = text[at++];
        }
    }
    return said;
}

/* Each of them has a soft break or an escape, and so becomes shorter by two bytes at least: room for a break. */
uint64_t psb_unquote(const uint8_t *text, uint64_t size, uint8_t *out) {
    uint64_t at = psb_find_quoted(text, size, 0), last = 0, said = 0;
    while (at < size) {
        uint64_t begin = at;
        while (begin > last && text[begin - 1] != '\n') begin--;
        if (last) out[said++] = PSB_BREAK;
        last = end_of_lines(text, size, at + 1);
        said += unquote(text + begin, last - begin, out + said);
        at = psb_find_quoted(text, size, last);
    }
    return said;
}
