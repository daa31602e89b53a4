/* The audit trail, as pysandbox/audit/stream.py writes it: whole records in turn, each with the hash of the last. */
#ifndef PSB_LAUNCHER_STREAM_H
#define PSB_LAUNCHER_STREAM_H

#include <stdint.h>

#include "text.h"

struct stream {
    const char *path;
    int file, head; /* -1: closed */
};

/* 0, or -1 where only Python can go on: no directory of ours alone, a file that is as good as full. */
int open_stream(struct stream *stream, const char *path);
void close_stream(struct stream *stream);

/* Appends one record; `data` is JSON. 0, or -errno; -EUCLEAN when the file is not as its last writer left it. */
int append_record(struct stream *stream, const char *type, const struct text *data);
/* On the disk, with all before it: 0, or -errno. */
int sync_stream(struct stream *stream);

#endif
