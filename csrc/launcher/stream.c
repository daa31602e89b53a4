/* Writers take turns by a lock on the head file, which holds the number and hash of the last record and the size of the
 * file. Where the two do not fit (a writer died in between) this is not the program to mend it. */
#include "stream.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "private.h"
#include "sha256.h"

#define HEX (2 * SHA256_SIZE)
#define NUMBER 20 /* digits in the head */
#define HEAD (NUMBER + 1 + HEX + 1 + NUMBER + 1)
#define ROTATE (64 << 20) /* bytes of a full file (pysandbox/audit/sink.py) */
#define SPARE (1 << 20)   /* so much before that, a run is left to who can begin a new file */

struct link {
    uint64_t number, size;
    char hash[HEX + 1];
};

void close_stream(struct stream *stream) {
    if (stream->file >= 0) close(stream->file);
    if (stream->head >= 0) close(stream->head);
    stream->file = stream->head = -1;
}

static int is_ours_alone(const char *path) {
    char directory[PATH_MAX];
    const char *slash = strrchr(path, '/');
    struct stat found;
    if (!slash || slash == path || (size_t)(slash - path) >= sizeof directory) return 0;
    memcpy(directory, path, (size_t)(slash - path));
    directory[slash - path] = 0;
    return !stat(directory, &found) && S_ISDIR(found.st_mode) && is_private(&found);
}

int open_stream(struct stream *stream, const char *path) {
    const int flags = O_CLOEXEC | O_NOFOLLOW;
    struct text head = {0};
    struct stat found;
    *stream = (struct stream){path, -1, -1};
    if (!is_ours_alone(path)) return -1;
    add_text(&head, path);
    add_whole(&head, ".head");
    if (!head.failed) stream->head = open(head.bytes, flags | O_RDWR);
    free(head.bytes);
    if (stream->head >= 0) stream->file = open(path, flags | O_WRONLY | O_APPEND);
    if (stream->file >= 0 && !fstat(stream->file, &found) && S_ISREG(found.st_mode) && found.st_size < ROTATE - SPARE)
        return 0;
    close_stream(stream);
    return -1;
}

/* Another writer may have begun a new file; with the lock held, nobody does so now. */
static int follow(struct stream *stream) {
    struct stat ours, named;
    int fresh;
    if (fstat(stream->file, &ours)) return -errno;
    if (!lstat(stream->path, &named) && named.st_dev == ours.st_dev && named.st_ino == ours.st_ino) return 0;
    fresh = open(stream->path, O_CLOEXEC | O_CREAT | O_NOFOLLOW | O_WRONLY | O_APPEND, 0600);
    if (fresh < 0) return -errno;
    close(stream->file);
    stream->file = fresh;
    return 0;
}

/* Digits alone; -1 for anything else. */
static int read_number(const char *at, uint64_t *number) {
    int i;
    *number = 0;
    for (i = 0; i < NUMBER; i++) {
        if (at[i] < '0' || at[i] > '9') return -1;
        if (__builtin_mul_overflow(*number, 10, number)) return -1;
        if (__builtin_add_overflow(*number, (uint64_t)(at[i] - '0'), number)) return -1;
    }
    return 0;
}

static int read_head(const struct stream *stream, struct link *last) {
    char text[HEAD + 1];
    struct stat found;
    const ssize_t got = pread(stream->head, text, sizeof text, 0);
    if (got < 0 || fstat(stream->file, &found)) return -errno;
    if (got != HEAD || text[NUMBER] != ' ' || text[NUMBER + 1 + HEX] != ' ' || text[HEAD - 1] != '\n') return -EUCLEAN;
    if (read_number(text, &last->number) || read_number(text + NUMBER + 1 + HEX + 1, &last->size)) return -EUCLEAN;
    memcpy(last->hash, text + NUMBER + 1, HEX);
    last->hash[HEX] = 0;
    if (strspn(last->hash, "0123456789abcdef") != HEX) return -EUCLEAN;
    return last->size == (uint64_t)found.st_size ? 0 : -EUCLEAN;
}

static void add_time(struct text *to) {
    struct timespec now;
    struct tm parts;
    char text[64];
    clock_gettime(CLOCK_REALTIME, &now);
    gmtime_r(&now.tv_sec, &parts);
    strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S.", &parts);
    add_text(to, text);
    add_padded(to, (uint64_t)now.tv_nsec / 1000, 6);
    add_text(to, "Z");
}

/* The line of the record that follows `last`, and what the next one follows. */
static void seal(struct text *line, struct link *last, const char *type, const struct text *data) {
    uint8_t digest[SHA256_SIZE];
    add_text(line, "{\"seq\":");
    add_number(line, ++last->number);
    add_text(line, ",\"time\":\"");
    add_time(line);
    add_text(line, "\",\"pid\":");
    add_number(line, (uint64_t)getpid());
    add_text(line, ",\"type\":\"");
    add_text(line, type);
    add_text(line, "\",\"data\":");
    add_bytes(line, data->bytes, data->size);
    add_text(line, ",\"prev\":\"");
    add_text(line, last->hash);
    add_text(line, "\"");
    if (line->failed) return;
    sha256_of(line->bytes, line->size, digest);
    to_hex(digest, sizeof digest, last->hash);
    add_text(line, ",\"hash\":\"");
    add_text(line, last->hash);
    add_text(line, "\"}\n");
}

static int write_head(const struct stream *stream, const struct link *last) {
    struct text head = {0};
    int result = 0;
    add_padded(&head, last->number, NUMBER);
    add_text(&head, " ");
    add_text(&head, last->hash);
    add_text(&head, " ");
    add_padded(&head, last->size, NUMBER);
    add_text(&head, "\n");
    if (head.failed)
        result = -ENOMEM;
    else if (pwrite(stream->head, head.bytes, head.size, 0) != (ssize_t)head.size)
        result = errno ? -errno : -ENOSPC;
    free(head.bytes);
    return result;
}

static int write_line(const struct stream *stream, const struct text *line, struct link *last) {
    const ssize_t written = write(stream->file, line->bytes, line->size);
    if (written < 0) return -errno;
    if ((size_t)written != line->size) return ftruncate(stream->file, (off_t)last->size) ? -errno : -ENOSPC;
    last->size += line->size;
    errno = 0;
    return write_head(stream, last);
}

int append_record(struct stream *stream, const char *type, const struct text *data) {
    struct text line = {0};
    struct link last;
    int result;
    if (data->failed) return -ENOMEM;
    while (flock(stream->head, LOCK_EX) < 0)
        if (errno != EINTR) return -errno;
    result = follow(stream);
    if (!result) result = read_head(stream, &last);
    if (!result) {
        seal(&line, &last, type, data);
        result = line.failed ? -ENOMEM : write_line(stream, &line, &last);
    }
    flock(stream->head, LOCK_UN);
    free(line.bytes);
    return result;
}

int sync_stream(struct stream *stream) {
    return fdatasync(stream->file) < 0 ? -errno : 0;
}
