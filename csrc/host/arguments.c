/* What an execve is about to run, read so that it holds until the kernel has read it too.
 *
 * The caller waits in its notification, so it changes nothing; others could: a thread or vfork peer that shares its
 * memory (`hold_arguments`), or whoever writes a file or shared memory that the pages are mapped from. Such a page is
 * written back to itself, through /proc/PID/mem: a private mapping then gets a copy of its own (copy on write), and a
 * shared one is told by its page-map bit (Documentation/admin-guide/mm/pagemap.rst) and refused. */
#include "arguments.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "guest.h"
#include "notify.h"

#define PAGE 4096UL
#define MOST_PAGES 1024
#define POINTERS 512 /* read at once */
#define PAGE_OF_FILE_OR_SHARED (1ULL << 61)
#define PAGE_PRESENT (1ULL << 63)

struct walk {
    int tid;
    char *to;
    size_t room, have;
    uint64_t pages[MOST_PAGES];
    size_t n_pages;
};

static int touch(struct walk *walk, uint64_t address, size_t size) {
    uint64_t page;
    for (page = address / PAGE; page <= (address + (size ? size - 1 : 0)) / PAGE; page++) {
        size_t i = walk->n_pages;
        while (i && walk->pages[i - 1] != page) i--; /* neighbours are the rule: found at once */
        if (i) continue;
        if (walk->n_pages == MOST_PAGES) return -E2BIG;
        walk->pages[walk->n_pages++] = page;
    }
    return 0;
}

static int read_one(struct walk *walk, uint64_t address) {
    const int64_t size = read_text(walk->tid, address, walk->to + walk->have, walk->room - walk->have);
    if (size == -ENAMETOOLONG) return -E2BIG;
    if (size < 0) return (int)size;
    walk->have += (size_t)size + 1;
    return touch(walk, address, (size_t)size + 1);
}

/* The pointers, up to the end of their page: what lies behind the last one may not be mapped. */
static int read_pointers(struct walk *walk, uint64_t address, uint64_t *pointers, size_t *count) {
    const size_t most = (PAGE - address % PAGE) / sizeof *pointers;
    int64_t got;
    *count = most < 1 ? 1 : most > POINTERS ? POINTERS : most;
    got = read_guest(walk->tid, address, pointers, *count * sizeof *pointers);
    if (got < (int64_t)sizeof *pointers) return got < 0 ? (int)got : -EFAULT;
    *count = (size_t)got / sizeof *pointers;
    return touch(walk, address, *count * sizeof *pointers);
}

static int read_list(struct walk *walk, uint64_t list) {
    uint64_t pointers[POINTERS];
    while (list) {
        size_t count, i;
        int result = read_pointers(walk, list, pointers, &count);
        if (result) return result;
        for (i = 0; i < count; i++) {
            if (!pointers[i]) return 0;
            result = read_one(walk, pointers[i]);
            if (result) return result;
        }
        list += count * sizeof *pointers;
    }
    return 0;
}

static int walk_arguments(struct walk *walk, int number, const uint64_t *args) {
    const int at = number == SYS_execveat;
    const int result = read_one(walk, args[at]);
    return result ? result : read_list(walk, args[at + 1]);
}

int64_t read_arguments(int tid, int number, const uint64_t *args, char *to, size_t room) {
    struct walk *walk = calloc(1, sizeof *walk);
    int64_t result;
    if (!walk) return -ENOMEM;
    walk->tid = tid;
    walk->to = to;
    walk->room = room;
    result = walk_arguments(walk, number, args);
    if (!result) result = (int64_t)walk->have;
    free(walk);
    return result;
}

static int open_of(int tid, const char *name, int flags) {
    char path[64];
    int fd;
    snprintf(path, sizeof path, "/proc/%d/%s", tid, name);
    fd = open(path, flags | O_CLOEXEC);
    return fd < 0 ? -EPERM : fd;
}

static int is_own(int pagemap, uint64_t page) {
    uint64_t entry = 0;
    if (pread(pagemap, &entry, sizeof entry, (off_t)(page * sizeof entry)) != sizeof entry) return 0;
    return entry & PAGE_PRESENT && !(entry & PAGE_OF_FILE_OR_SHARED);
}

static int copy_on_write(int memory, uint64_t page) {
    char bytes[8];
    const off_t at = (off_t)(page * PAGE);
    if (pread(memory, bytes, sizeof bytes, at) != sizeof bytes) return -EPERM;
    return pwrite(memory, bytes, sizeof bytes, at) == sizeof bytes ? 0 : -EPERM;
}

static int own_page(int pagemap, int memory, uint64_t page) {
    if (is_own(pagemap, page)) return 0;
    if (copy_on_write(memory, page)) return -EPERM;
    return is_own(pagemap, page) ? 0 : -EPERM;
}

static int own_pages(int tid, const struct walk *walk) {
    int pagemap = open_of(tid, "pagemap", O_RDONLY), memory = open_of(tid, "mem", O_RDWR), result;
    size_t i;
    result = pagemap < 0 || memory < 0 ? -EPERM : 0;
    for (i = 0; i < walk->n_pages && !result; i++) result = own_page(pagemap, memory, walk->pages[i]);
    if (pagemap >= 0) close(pagemap);
    if (memory >= 0) close(memory);
    return result;
}

int settle_arguments(int tid, int number, const uint64_t *args, const char *expected, size_t size) {
    struct walk *walk = calloc(1, sizeof *walk);
    char *now = malloc(size + 1);
    int result = walk && now ? 0 : -ENOMEM;
    if (!result) {
        *walk = (struct walk){.tid = tid, .to = now, .room = size + 1};
        result = walk_arguments(walk, number, args);
        if (!result) result = own_pages(tid, walk);
        walk->have = walk->n_pages = 0;
        if (!result) result = walk_arguments(walk, number, args);
        if (!result && (walk->have != size || memcmp(now, expected, size))) result = -EPERM;
        if (result == -E2BIG) result = -EPERM; /* it has grown */
    }
    free(now);
    free(walk);
    return result;
}

int64_t psb_read_exec(int pid, int number, const uint64_t *args, char *to, size_t room) {
    return read_arguments(pid, number, args, to, room);
}
