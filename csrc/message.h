/* What sendmsg(2) and recvmsg(2) take, for what has no libc. Not for csrc/host: libc has its own. */
#ifndef PSB_MESSAGE_H
#define PSB_MESSAGE_H

#include <stddef.h>
#include <stdint.h>

struct io_vector {
    void *base;
    size_t size;
};

struct message_header {
    void *name;
    int32_t name_size;
    struct io_vector *vectors;
    size_t n_vectors;
    void *control;
    size_t control_size;
    uint32_t flags;
};

#endif
