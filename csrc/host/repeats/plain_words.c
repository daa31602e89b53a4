/* A request of HTTP has a slash before its line ends, of a path or of its version; and no server takes a line for one
 * that begins with neither a letter of a method nor white space. Words that some server may skip are not looked at
 * here, nor what may be TLS. */
#include "plain_words.h"

#include <string.h>

#define TLS_HANDSHAKE 22

static int may_begin_a_method(unsigned char byte) {
    return (byte >= '0' && byte <= '9') || (byte >= 'A' && byte <= 'Z') || (byte >= 'a' && byte <= 'z') ||
           (byte && strchr("!#$%&'*+.^_`|~-", byte));
}

/* All that sniff.py takes for it, and more: what is skipped before a line, the first byte of TLS, and those of which
 * hellos of SSL 2 begin with one. */
static int is_left_alone(unsigned char byte) {
    return byte & 0x80 || byte == TLS_HANDSHAKE || byte == ' ' || (byte >= '\t' && byte <= '\r') ||
           (byte >= 0x1c && byte <= 0x1f);
}

int psb_is_plain(const char *said, size_t size) {
    const char *end;
    if (!size || is_left_alone((unsigned char)*said)) return 0;
    if (!may_begin_a_method((unsigned char)*said)) return 1;
    end = memchr(said, '\n', size);
    return end && !memchr(said, '/', (size_t)(end - said));
}
