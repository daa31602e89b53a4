/* The record of a cage that lasts (pysandbox/records/registry.py): one small file in a directory of mode 0700, which
 * goes with the cage. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "owner.h"
#include "private.h"
#include "record.h"

#define LONGEST_ARGV 4096 /* bytes of the command line that are kept */

static int add_owner(struct text *to, const char *name, int pid, uint64_t namespace) {
    unsigned long long start;
    if (start_of(pid, &start)) return -1;
    add_text(to, "\"");
    add_text(to, name);
    add_text(to, "\": [");
    add_number(to, namespace);
    add_text(to, ", ");
    add_number(to, (uint64_t)pid);
    add_text(to, ", ");
    add_number(to, start);
    add_text(to, "], ");
    return 0;
}

/* As much of it as a record keeps; a letter is kept whole or not at all. */
static int add_shortened(struct text *to, const char *argument, long *room) {
    size_t size = strlen(argument);
    char *cut;
    int result;
    if (*room <= 0) return add_json(to, "...");
    if (size > (size_t)*room) {
        size = (size_t)*room;
        while (size && (argument[size] & 0xc0) == 0x80) size--;
    }
    *room -= (long)size + 1;
    cut = strndup(argument, size);
    if (!cut) return -1;
    result = add_json(to, cut);
    free(cut);
    return result;
}

static int add_command(struct text *to, char *const *argv) {
    long room = LONGEST_ARGV;
    int i, is_last = 0;
    add_text(to, "\"argv\": [");
    for (i = 0; argv[i] && !is_last; i++) {
        is_last = room <= 0;
        if (i) add_text(to, ", ");
        if (add_shortened(to, argv[i], &room)) return -1;
    }
    add_text(to, "], ");
    return 0;
}

static int describe(struct text *to, const struct run *run) {
    struct stat namespace;
    char started[48];
    if (stat("/proc/self/ns/pid", &namespace)) return -1;
    add_text(to, "{\"id\": \"");
    add_text(to, run->trail.id);
    add_text(to, "\", ");
    if (add_owner(to, "init", run->cage.pid, namespace.st_ino)) return -1;
    if (add_owner(to, "host", getpid(), namespace.st_ino)) return -1;
    if (add_command(to, run->argv)) return -1;
    snprintf(started, sizeof started, "%.6f", run->started);
    add_text(to, "\"digest\": \"");
    add_text(to, text_named(run->kept, PSB_TEXT_DIGEST));
    add_text(to, "\", \"started\": ");
    add_text(to, started);
    add_text(to, ", \"cgroup\": ");
    if (add_json(to, run->cgroup.path ? run->cgroup.path : "")) return -1;
    add_text(to, ", \"scratch\": \"\", \"detached\": false, \"key\": \"\"}");
    return to->failed ? -1 : 0;
}

static int open_records(const char *path) {
    const int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    struct stat found;
    if (fd < 0) return -1;
    if (!fstat(fd, &found) && is_private(&found)) return fd;
    close(fd);
    return -1;
}

/* It appears whole or not at all. */
static int replace(int folder, const char *id, const struct text *text) {
    char fresh[48], name[48];
    ssize_t written;
    int fd;
    snprintf(fresh, sizeof fresh, ".%s", id);
    snprintf(name, sizeof name, "%s.json", id);
    fd = openat(folder, fresh, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0) return -1;
    written = write(fd, text->bytes, text->size);
    close(fd);
    if (written == (ssize_t)text->size && !renameat(folder, fresh, folder, name)) return 0;
    unlinkat(folder, fresh, 0);
    return -1;
}

void write_record(void *argument) {
    struct run *run = argument;
    const char *path = text_named(run->kept, PSB_TEXT_RECORDS);
    struct text text = {0};
    if (mkdir(path, 0700) < 0) run->records = -1; /* it is there, or cannot be made: `open_records` sees */
    run->records = open_records(path);
    if (run->records >= 0 && (describe(&text, run) || replace(run->records, run->trail.id, &text))) {
        close(run->records);
        run->records = -1;
    }
    free(text.bytes);
}

void remove_record(struct run *run) {
    char name[48];
    if (run->records < 0) return;
    snprintf(name, sizeof name, "%s.json", run->trail.id);
    unlinkat(run->records, name, 0);
    close(run->records);
    run->records = -1;
}
