/* The build writes the texts (tools/errno_texts.py); whoever compiles this file alone has those of the C library. */
#include "errno_text.h"

#include <string.h>

#if __has_include("errno_texts.h")
static const char *const TEXTS[] = {
#include "errno_texts.h"
};

const char *errno_text(int number) {
    const int known = number >= 0 && (size_t)number < sizeof TEXTS / sizeof *TEXTS;
    return known ? TEXTS[number] : strerror(number);
}
#else
const char *errno_text(int number) {
    return strerror(number);
}
#endif
