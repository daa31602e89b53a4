/* Each pass shortens a line in its own memory: whatever an escape stands for is shorter than the escape. The passes of
 * a layer, and their order, are what a reader of such a text would undo one after the other. */
#include "escapes.h"

#include <string.h>

#include "letters.h"
#include "stretches.h"

/* What an escape stands for, and how long it was; `size` 0: it was none. */
struct escape {
    uint64_t size;
    unsigned said;
    uint8_t text[4];
};

typedef struct escape (*reads)(const uint8_t *text, uint64_t left);

static const struct escape NO_ESCAPE;

static unsigned zeros(const uint8_t *text, unsigned count) {
    unsigned i = 0;
    while (i < count && text[i] == '0') i++;
    return i;
}

static struct escape byte(uint64_t size, unsigned code) {
    struct escape found = {.size = size, .said = 1, .text = {(uint8_t)code}};
    return found;
}

/* Nothing for half a character: two of them are one beyond U+FFFF, none of which looks like ASCII. */
static struct escape character(uint64_t size, unsigned code) {
    struct escape found = {.size = size};
    if (code > 0x10ffff || (code >= 0xd800 && code < 0xe000)) return found;
    if (code < 0x80) return byte(size, code);
    found.said = code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    found.text[0] = (uint8_t)((0xf00 >> found.said) | code >> (6 * (found.said - 1)));
    for (unsigned i = 1; i < found.said; i++)
        found.text[i] = (uint8_t)(0x80 | (code >> (6 * (found.said - 1 - i)) & 0x3f));
    return found;
}

/* %41 */
static struct escape read_percent(const uint8_t *text, uint64_t left) {
    return left > 2 && psb_digits(text + 1, 2, 2) == 2 ? byte(3, psb_number(text + 1, 2, 16)) : NO_ESCAPE;
}

/* %u0041 */
static struct escape read_percent_u(const uint8_t *text, uint64_t left) {
    int is_one = left > 5 && text[1] == 'u' && psb_digits(text + 2, 4, 4) == 4;
    return is_one ? character(6, psb_number(text + 2, 4, 16)) : NO_ESCAPE;
}

/* {41}, with up to four zeros before up to six digits */
static struct escape read_braces(const uint8_t *text, uint64_t left) {
    unsigned count = psb_digits(text + 3, left - 3, 11);
    if (!count || count > 10 || (count > 6 && zeros(text + 3, count) < count - 6)) return NO_ESCAPE;
    if (left - 3 <= count || text[3 + count] != '}') return NO_ESCAPE;
    return character(4 + count, psb_number(text + 3, count, 16));
}

static int is_octal(const uint8_t *text) {
    return text[0] >= '0' && text[0] <= '3' && text[1] >= '0' && text[1] <= '7' && text[2] >= '0' && text[2] <= '7';
}

/* \u{41} \u0041 \x41 \101 */
static struct escape read_json(const uint8_t *text, uint64_t left) {
    if (left < 4) return NO_ESCAPE;
    if (text[1] == 'x') return psb_digits(text + 2, 2, 2) == 2 ? byte(4, psb_number(text + 2, 2, 16)) : NO_ESCAPE;
    if (text[1] != 'u') return is_octal(text + 1) ? byte(4, psb_number(text + 1, 3, 8)) : NO_ESCAPE;
    if (text[2] == '{') return read_braces(text, left);
    return psb_digits(text + 2, left - 2, 4) == 4 ? character(6, psb_number(text + 2, 4, 16)) : NO_ESCAPE;
}

/* Two backslashes that are one, before what one stands before too. Called at the last of the backslashes of a run. */
static struct escape read_short(const uint8_t *text, uint64_t left) {
    static const uint8_t escaped[] = "/\"nr", said[] = "/\"\n\r";
    const uint8_t *found = left > 1 && text[1] ? memchr(escaped, text[1], sizeof escaped - 1) : NULL;
    return found ? byte(2, said[found - escaped]) : NO_ESCAPE;
}

/* &#65; &#x41; with up to eight zeros; the semicolon may be left out before what is no digit. */
static struct escape read_html(const uint8_t *text, uint64_t left) {
    unsigned is_hex, nulls, count, begin;
    uint64_t after;
    if (left < 3 || text[1] != '#') return NO_ESCAPE;
    is_hex = text[2] == 'x' || text[2] == 'X';
    begin = 2 + is_hex;
    count = psb_digits(text + begin, left - begin, 16);
    nulls = zeros(text + begin, count);
    after = begin + count;
    if (count == 16 || !count) return NO_ESCAPE;
    if (is_hex && count > 6 && (nulls < count - 6 || count > 14)) return NO_ESCAPE;
    if (!is_hex) {
        unsigned i;
        if (nulls > 8 || nulls == count || count - nulls > 7) return NO_ESCAPE;
        for (i = nulls; i < count; i++)
            if (text[begin + i] > '9') return NO_ESCAPE;
    }
    return character(after + (after < left && text[after] == ';'),
                     psb_number(text + begin + nulls, count - nulls, is_hex ? 16 : 10));
}

/* HTML 5's names of what is ASCII, but for &amp;. */
static const struct entity {
    const char *name;
    char said;
} ENTITIES[] = {
    {"AMP;", '&'},      {"DiacriticalGrave;", '`'},
    {"GT;", '>'},       {"Hat;", '^'},
    {"LT;", '<'},       {"NewLine;", '\n'},
    {"QUOT;", '"'},     {"Tab;", '\t'},
    {"UnderBar;", '_'}, {"VerticalLine;", '|'},
    {"apos;", '\''},    {"ast;", '*'},
    {"bsol;", '\\'},    {"colon;", ':'},
    {"comma;", ','},    {"commat;", '@'},
    {"dollar;", '$'},   {"equals;", '='},
    {"excl;", '!'},     {"grave;", '`'},
    {"gt;", '>'},       {"lbrace;", '{'},
    {"lbrack;", '['},   {"lcub;", '{'},
    {"lowbar;", '_'},   {"lpar;", '('},
    {"lsqb;", '['},     {"lt;", '<'},
    {"midast;", '*'},   {"num;", '#'},
    {"percnt;", '%'},   {"period;", '.'},
    {"plus;", '+'},     {"quest;", '?'},
    {"quot;", '"'},     {"rbrace;", '}'},
    {"rbrack;", ']'},   {"rcub;", '}'},
    {"rpar;", ')'},     {"rsqb;", ']'},
    {"semi;", ';'},     {"sol;", '/'},
    {"verbar;", '|'},   {"vert;", '|'},
};

enum {
    N_ENTITIES = sizeof ENTITIES / sizeof *ENTITIES,
    LONGEST_ENTITY = 18
};

static int begins(const uint8_t *text, uint64_t left, const char *with) {
    size_t size = strlen(with);
    return size <= left && !memcmp(text, with, size);
}

/* &amp; first, then a name that may follow from it. */
static struct escape read_entity(const uint8_t *text, uint64_t left) {
    uint64_t at = begins(text, left, "&amp;") ? 5 : 1;
    const struct entity *each;
    if (left > at && memchr(text + at, ';', left - at < LONGEST_ENTITY ? left - at : LONGEST_ENTITY))
        for (each = ENTITIES; each < ENTITIES + N_ENTITIES; each++)
            if (text[at] == (uint8_t)*each->name && begins(text + at, left - at, each->name))
                return byte(at + strlen(each->name), (uint8_t)each->said);
    return at > 1 ? byte(at, '&') : NO_ESCAPE;
}

/* Undoes the escapes of one form that begin with this byte; returns the size of what is left. */
static uint64_t pass(uint8_t *text, uint64_t size, uint8_t first, reads read) {
    uint64_t at = 0, said = 0;
    while (at < size) {
        const uint8_t *next = memchr(text + at, first, size - at);
        uint64_t plain = (next ? (uint64_t)(next - text) : size) - at;
        struct escape found;
        if (said != at) memmove(text + said, text + at, plain);
        said += plain, at += plain;
        if (at == size) break;
        found = read(text + at, size - at);
        if (found.size) {
            memcpy(text + said, found.text, found.said);
            said += found.said, at += found.size;
        } else {
            text[said++] = text[at++];
        }
    }
    return said;
}

/* Each two backslashes of a run are one; then the last of them may escape what follows. */
static uint64_t pass_short(uint8_t *text, uint64_t size) {
    uint64_t at = 0, said = 0;
    while (at < size) {
        const uint8_t *next = memchr(text + at, '\\', size - at);
        uint64_t plain = (next ? (uint64_t)(next - text) : size) - at, count = 0;
        struct escape found;
        if (said != at) memmove(text + said, text + at, plain);
        said += plain, at += plain;
        while (at + count < size && text[at + count] == '\\') count++;
        if (!count) break;
        at += count - 1;
        found = read_short(text + at, size - at);
        count = count / 2 + count % 2 - (found.size > 0);
        memset(text + said, '\\', count);
        said += count;
        if (found.size) text[said++] = found.text[0];
        at += found.size ? found.size : 1;
    }
    return said;
}

static uint64_t one_layer(uint8_t *text, uint64_t size) {
    size = pass(text, size, '%', read_percent);
    size = pass(text, size, '%', read_percent_u);
    size = pass(text, size, '\\', read_json);
    size = pass_short(text, size);
    size = pass(text, size, '&', read_html);
    return pass(text, size, '&', read_entity);
}

/* The size of what is left; PSB_MOST_LAYERS layers are undone, and it is said when there are more. */
static uint64_t unescape_line(uint8_t *line, uint64_t size, struct psb_unescaped *result) {
    int layers;
    for (layers = 0; layers < PSB_MOST_LAYERS; layers++) {
        uint64_t left = one_layer(line, size);
        if (left == size) return size;
        size = left;
    }
    result->is_too_often = 1;
    return size;
}

static int is_of_url(const uint8_t *text, uint64_t left) {
    return read_percent(text, left).size || read_percent_u(text, left).size;
}

static int is_of_json(const uint8_t *text, uint64_t left) {
    return (left > 1 && text[1] == '\\') || read_short(text, left).size || read_json(text, left).size;
}

static int is_of_html(const uint8_t *text, uint64_t left) {
    return read_html(text, left).size || read_entity(text, left).size;
}

/* The byte with which the escapes of a language begin, and whether one does. None goes beyond its line. */
static const struct language {
    uint8_t first;
    int (*is_escape)(const uint8_t *text, uint64_t left);
} LANGUAGES[] = {{'%', is_of_url}, {'\\', is_of_json}, {'&', is_of_html}};

enum {
    N_LANGUAGES = sizeof LANGUAGES / sizeof *LANGUAGES
};

/* Where each language's next escape stands; so no byte is looked at more than once for each. */
struct ahead {
    uint64_t at[N_LANGUAGES];
};

static uint64_t find_escape(const uint8_t *text, uint64_t size, uint64_t at, const struct language *language) {
    for (at = psb_find(text, size, at, language->first); at < size; at = psb_find(text, size, at + 1, language->first))
        if (language->is_escape(text + at, size - at)) break;
    return at;
}

static struct ahead look_ahead(const uint8_t *text, uint64_t size) {
    struct ahead ahead = {{0}};
    unsigned i;
    for (i = 0; i < N_LANGUAGES; i++) ahead.at[i] = find_escape(text, size, 0, &LANGUAGES[i]);
    return ahead;
}

/* The next line from `at` on that has an escape. */
static int next_line(const uint8_t *text, uint64_t size, struct ahead *ahead, uint64_t *at, uint64_t *end) {
    uint64_t found = size;
    unsigned i;
    for (i = 0; i < N_LANGUAGES; i++) {
        if (ahead->at[i] < *at) ahead->at[i] = find_escape(text, size, *at, &LANGUAGES[i]);
        if (ahead->at[i] < found) found = ahead->at[i];
    }
    if (found == size) return 0;
    *end = psb_find(text, size, found, '\n');
    while (found > *at && text[found - 1] != '\n') found--;
    *at = found;
    return 1;
}

int psb_is_escaped(const uint8_t *text, uint64_t size) {
    unsigned i;
    for (i = 0; i < N_LANGUAGES; i++)
        if (find_escape(text, size, 0, &LANGUAGES[i]) < size) return 1;
    return 0;
}

uint64_t psb_find_cut(const uint8_t *text, uint64_t size, uint64_t at) {
    static const uint8_t is_cut[256] = {['"'] = 1, ['\''] = 1, ['<'] = 1, ['>'] = 1, ['('] = 1, [')'] = 1,
                                        ['['] = 1, [']'] = 1,  ['!'] = 1, ['$'] = 1, ['*'] = 1, ['@'] = 1};
    while (at < size && !is_cut[text[at]]) at++;
    return at < size ? at + 1 : size;
}

uint64_t psb_escaped_size(const uint8_t *text, uint64_t size) {
    struct ahead ahead = look_ahead(text, size);
    uint64_t at = 0, end, sum = 0;
    for (; at < size && next_line(text, size, &ahead, &at, &end); at = end + 1) sum += end - at + 1;
    return sum;
}

void psb_unescape(const uint8_t *text, uint64_t size, uint8_t *out, struct psb_unescaped *result) {
    struct ahead ahead = look_ahead(text, size);
    uint64_t at = 0, end, lines = 0;
    result->said = 0, result->is_too_often = 0;
    for (; at < size && next_line(text, size, &ahead, &at, &end); at = end + 1) {
        if (lines++) out[result->said++] = PSB_BREAK;
        memcpy(out + result->said, text + at, end - at);
        result->said += unescape_line(out + result->said, end - at, result);
    }
}

int psb_is_form(const uint8_t *text, uint64_t size) {
    uint64_t at;
    for (at = psb_find(text, size, 0, '+'); at < size; at = psb_find(text, size, at + 1, '+'))
        if (at >= 5 && (!memcmp(text + at - 5, "BEGIN", 5) || !memcmp(text + at - 5, "earer", 5))) return 1;
    return 0;
}
