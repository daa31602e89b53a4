/* Words that are no request and no TLS (read by cffi, preprocessor lines stripped). */
#ifndef PSB_HOST_REPEATS_PLAIN_WORDS_H
#define PSB_HOST_REPEATS_PLAIN_WORDS_H

#include <stddef.h>

/* Whether what a client says first begins neither TLS nor a request of HTTP, however it goes on: gate/tcp/sniff.py says
 * the same of all that this says it of. */
int psb_is_plain(const char *said, size_t size);

#endif
