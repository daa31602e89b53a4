#include "text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int make_room(struct text *to, size_t size) {
    size_t room = to->room ? to->room : 512;
    char *grown;
    while (room - to->size < size) room *= 2;
    if (room == to->room) return 1;
    grown = realloc(to->bytes, room);
    if (!grown) return 0;
    to->bytes = grown;
    to->room = room;
    return 1;
}

void add_bytes(struct text *to, const void *bytes, size_t size) {
    if (to->failed || !size) return;
    if (!make_room(to, size)) {
        to->failed = 1;
        return;
    }
    memcpy(to->bytes + to->size, bytes, size);
    to->size += size;
}

void add_text(struct text *to, const char *text) {
    add_bytes(to, text, strlen(text));
}

void add_whole(struct text *to, const char *text) {
    add_bytes(to, text, strlen(text) + 1);
}

void add_padded(struct text *to, uint64_t number, int width) {
    char digits[32];
    add_bytes(to, digits, (size_t)snprintf(digits, sizeof digits, "%0*llu", width, (unsigned long long)number));
}

void add_number(struct text *to, uint64_t number) {
    add_padded(to, number, 1);
}

/* ---- JSON -------------------------------------------------------------------------------------------------------- */

static void add_escape(struct text *to, unsigned unit) {
    char escape[8];
    add_bytes(to, escape, (size_t)snprintf(escape, sizeof escape, "\\u%04x", unit & 0xffff));
}

static void add_ascii(struct text *to, char letter) {
    static const char plain[] = "\"\\\n\r\t\f\b", escaped[] = "\"\\nrtfb";
    const char *special = strchr(plain, letter);
    if (special) {
        const char pair[2] = {'\\', escaped[special - plain]};
        add_bytes(to, pair, 2);
    } else if (letter < ' ' || letter == 0x7f) {
        add_escape(to, (unsigned char)letter);
    } else {
        add_bytes(to, &letter, 1);
    }
}

/* The letter that begins here and how many bytes it has; 0 for what is not UTF-8. */
static int decode(const unsigned char *at, uint32_t *letter) {
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    const int size = at[0] >= 0xf0 && at[0] < 0xf8 ? 4 : at[0] >= 0xe0 ? 3 : at[0] >= 0xc2 ? 2 : 0;
    int i;
    if (!size || at[0] >= 0xf8) return 0;
    *letter = at[0] & (0xffU >> (size + 1));
    for (i = 1; i < size; i++) {
        if ((at[i] & 0xc0) != 0x80) return 0;
        *letter = *letter << 6 | (at[i] & 0x3fU);
    }
    return *letter < least[size] || *letter > 0x10ffff || (*letter >= 0xd800 && *letter < 0xe000) ? 0 : size;
}

/* Python reads its arguments by the locale. An unset one, C and POSIX are UTF-8 to it (PEP 538, PEP 540). */
static int is_utf8_locale(void) {
    static const char *const names[] = {"LC_ALL", "LC_CTYPE", "LANG"};
    const char *value = NULL;
    size_t i;
    for (i = 0; i < sizeof names / sizeof *names && !(value && *value); i++) value = getenv(names[i]);
    return !value || !*value || !strcmp(value, "C") || !strcmp(value, "POSIX") || strstr(value, "UTF-8") ||
           strstr(value, "utf8");
}

int add_json(struct text *to, const char *text) {
    const unsigned char *at = (const unsigned char *)text;
    uint32_t letter;
    add_bytes(to, "\"", 1);
    while (*at) {
        int size = 1;
        if (*at < 0x80) {
            add_ascii(to, (char)*at);
        } else {
            size = is_utf8_locale() ? decode(at, &letter) : 0;
            if (!size) return -1;
            if (letter >= 0x10000) {
                add_escape(to, 0xd800 + ((letter - 0x10000) >> 10));
                add_escape(to, 0xdc00 + ((letter - 0x10000) & 0x3ff));
            } else {
                add_escape(to, letter);
            }
        }
        at += size;
    }
    add_bytes(to, "\"", 1);
    return 0;
}
