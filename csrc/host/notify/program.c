/* The kernel enforces the list of executables; to say what it refuses, the path has to be looked up in the cage, and
 * before the call goes on: a moment later its caller may be gone, and with it the root and the directory that the path
 * begins at. It may not wait either, for the cage ends only when its loop does: the walk uses what the kernel has
 * cached and nothing else (RESOLVE_CACHED, Linux 5.12); what is not cached is Python's to look up, while the call
 * waits, and so is what leads through a process of /proc (magic links). */
#include "program.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "../emulate/emulate.h"

/* FNV-1a, as supervise.wire.digest. */
static uint64_t digest(const char *text) {
    uint64_t sum = 0xcbf29ce484222325ULL;
    while (*text) sum = (sum ^ (uint8_t)*text++) * 0x100000001b3ULL;
    return sum;
}

static int is_descriptor(const char *name) {
    const char *number = name + 3;
    return !strncmp(name, "fd/", 3) && *number && strlen(number) < 11 && strspn(number, "0123456789") == strlen(number);
}

/* What a path names through the caller's own /proc, "exe" or "fd/N", which no walk follows; else NULL. */
static const char *magic_of(const char *path) {
    static const char *const own[] = {"/dev/", "/proc/self/", "/proc/thread-self/"};
    size_t i;
    for (i = 0; i < sizeof own / sizeof *own; i++) {
        const char *rest = path + strlen(own[i]);
        if (strncmp(path, own[i], strlen(own[i]))) continue;
        if (is_descriptor(rest) || (i && !strcmp(rest, "exe"))) return rest;
    }
    return NULL;
}

static int open_cached(int root, const char *path, uint64_t flags) {
    struct open_how how = {.flags = O_PATH | O_CLOEXEC | flags,
                           .resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS | RESOLVE_CACHED};
    const long fd = syscall(SYS_openat2, root, path, &how, sizeof how);
    return fd < 0 ? -errno : (int)fd;
}

static int is_link(int fd) {
    struct stat found;
    const int link = !fstat(fd, &found) && S_ISLNK(found.st_mode);
    close_own(fd);
    return link;
}

/* Whether a path that leads nowhere for us leads nowhere for its caller: one that ends at a link may lead through its
 * own /proc, which looks otherwise to us. Cuts the path. */
static int is_missing(int root, char *path) {
    int fd = open_cached(root, path, O_NOFOLLOW);
    while (fd == -ENOENT) {
        char *last = strrchr(path, '/');
        if (!last || last == path) return 1;
        *last = 0;
        fd = open_cached(root, path, O_NOFOLLOW);
    }
    return fd >= 0 ? !is_link(fd) : fd == -ENOTDIR;
}

static int64_t walk_from(int root, char *path, char *to, size_t room) {
    char name[64];
    ssize_t size;
    const int fd = open_cached(root, path, 0);
    if (fd == -ELOOP || (fd == -ENOENT && !is_missing(root, path))) return -EAGAIN;
    if (fd < 0) return fd;
    snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
    size = readlink(name, to, room - 1);
    close_own(fd);
    return size < 0 ? 0 : size;
}

static int64_t walk(const struct target *caller, char *path, char *to, size_t room) {
    const int root = open_of(caller, "root", O_PATH | O_DIRECTORY);
    int64_t size;
    if (root < 0) return root;
    size = walk_from(root, path, to, room);
    close_own(root);
    return size;
}

int64_t find_program(const struct call_facts *facts, char *to, size_t room, uint64_t *asked) {
    const int directory = facts->number == SYS_execveat ? (int)facts->args[0] : AT_FDCWD;
    char path[PATH_ROOM], name[32];
    int64_t size, start = 0;
    if (read_text(&facts->caller, facts->args[facts->number == SYS_execveat], to, room) < 0) return 0;
    *asked = digest(to);
    if (magic_of(to)) {
        snprintf(name, sizeof name, "%s", magic_of(to));
        size = link_of(&facts->caller, name, to, room);
        return size < 0 ? 0 : size;
    }
    if (to[0] != '/') start = directory_of(&facts->caller, directory, path, LONGEST_PATH);
    if (start < 0) return 0;
    if (!to[0]) { /* AT_EMPTY_PATH: the descriptor itself */
        snprintf(to, room, "%s", path);
        return start;
    }
    snprintf(path + start, sizeof path - (size_t)start, "%s%s", start ? "/" : "", to);
    size = walk(&facts->caller, path, to, room);
    return size == -EAGAIN || size >= 0 ? size : 0;
}
