/* See paths.h. The walk uses what the kernel has cached (RESOLVE_CACHED, Linux 5.12), as program.c's does: the loop may
 * not wait for a disk. A file system in memory keeps no names of what is missing, and has nothing to wait for.
 *
 * The answers are the kernel's: a mount that is read-only is EROFS where the caller's own rights would let it write, a
 * cover of ours has no mode at all, and what is not in the cage is ENOENT. Where there is no mount namespace
 * (`on_host`) Landlock alone refuses: then every file is told once, and Python holds it against the rules. */
#include "paths.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <linux/openat2.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "../emulate/emulate.h"
#include "path_calls.h"
#include "target.h"

static int open_at(int root, const char *path, uint64_t flags, int cached) {
    struct open_how how = {.flags = O_PATH | O_CLOEXEC | flags,
                           .resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS | (cached ? RESOLVE_CACHED : 0)};
    const long fd = syscall(SYS_openat2, root, path, &how, sizeof how);
    return fd < 0 ? -errno : (int)fd;
}

static int is_in_memory(int fd) {
    struct statfs found;
    return !fstatfs(fd, &found) && found.f_type == TMPFS_MAGIC;
}

/* Looks for the name itself below the last directory of the path that is cached. What is there after all is not for
 * here. */
static int miss_in_memory(int root, const char *path) {
    char above[PATH_ROOM], *last;
    int fd = -EAGAIN, found = 0;
    snprintf(above, sizeof above, "%s", path);
    while (fd == -EAGAIN && (last = strrchr(above, '/'))) {
        const char *name = path + (last - above) + 1;
        const size_t size = strcspn(name, "/");
        *last = 0;
        fd = open_at(root, above[0] ? above : "/", O_DIRECTORY, 1);
        if (fd < 0 || !size) continue;
        snprintf(above, sizeof above, "%.*s", (int)size, name);
        if (is_in_memory(fd)) found = open_at(fd, above, O_NOFOLLOW, 0);
        break;
    }
    if (fd >= 0) close_own(fd);
    if (found > 0) close_own(found);
    return found == -ENOENT ? -ENOENT : -EAGAIN;
}

static int find(int root, const char *path, uint64_t flags, int cached) {
    const int fd = open_at(root, path, flags, cached);
    return cached && fd == -EAGAIN ? miss_in_memory(root, path) : fd;
}

static int is_read_only(int fd) {
    struct statfs found;
    return !fstatfs(fd, &found) && found.f_flags & ST_RDONLY;
}

/* The errno with which the kernel refuses what is wanted of a file that is there; 0: none that is of the cage's. */
static int refusal_of(int fd, const struct psb_look *look) {
    const int flags = AT_EMPTY_PATH | AT_EACCESS;
    struct stat found;
    if (fstat(fd, &found) || S_ISLNK(found.st_mode)) return 0;
    if (look->wanted == PSB_WANTED_LOOK) return 0;
    if (!(found.st_mode & 07777)) return EACCES;
    if (look->wanted == PSB_WANTED_CHANGE || look->wanted == PSB_WANTED_REMOVE) return is_read_only(fd) ? EROFS : 0;
    if (look->wanted != PSB_WANTED_WRITE && look->wanted != PSB_WANTED_CREATE) return 0;
    return syscall(SYS_faccessat2, fd, "", W_OK, flags) < 0 && errno == EROFS ? EROFS : 0;
}

/* A name that is to be made is refused by the directory. */
static int refusal_above(int root, const char *path, int cached) {
    char above[PATH_ROOM], *last;
    int fd, number;
    snprintf(above, sizeof above, "%s", path);
    last = strrchr(above, '/');
    while (last && last > above && !last[1]) { /* mkdir may have a slash at its end */
        *last = 0;
        last = strrchr(above, '/');
    }
    if (!last) return 0;
    last[last == above] = 0;
    fd = find(root, above, O_DIRECTORY, cached);
    if (fd < 0) return fd;
    number = is_read_only(fd) ? EROFS : 0;
    close_own(fd);
    return number;
}

static int makes(const struct psb_look *look) {
    return look->wanted == PSB_WANTED_MAKE || look->wanted == PSB_WANTED_CREATE;
}

static int is_directory(int fd) {
    struct stat found;
    return !fstat(fd, &found) && S_ISDIR(found.st_mode);
}

/* Where Landlock alone refuses, by rules that are not known here. */
static int refusal_on_host(int fd, struct psb_look *look) {
    const int told = look->wanted != PSB_WANTED_LOOK && look->wanted != PSB_WANTED_CHANGE;
    look->directory = fd >= 0 && is_directory(fd);
    return told && (fd >= 0 || makes(look)) ? EACCES : 0;
}

/* 0 where nothing is refused, or nobody can tell; an errno; -EAGAIN. */
static int look_at(int root, struct psb_look *look, uint64_t flags, int on_host, int cached) {
    const int fd = find(root, look->path, flags, cached);
    int number;
    if (fd == -EAGAIN) return fd;
    if (on_host)
        number = refusal_on_host(fd, look);
    else if (fd >= 0)
        number = look->wanted == PSB_WANTED_MAKE ? 0 : refusal_of(fd, look);
    else if (fd == -ENOENT && makes(look))
        number = refusal_above(root, look->path, cached);
    else
        number = fd == -ENOENT || fd == -EACCES ? -fd : 0;
    if (fd >= 0) close_own(fd);
    if (number >= 0 || number == -EAGAIN) return number;
    return number == -ENOENT ? ENOENT : 0;
}

/* The path as the cage names it, absolute: 0, or -1 where there is nothing to be looked up. */
static int read_path(const struct call_facts *facts, const struct path_argument *row, char *to) {
    const int directory = row->directory < 0 ? AT_FDCWD : (int)facts->args[row->directory];
    char text[LONGEST_PATH];
    int64_t start = 0;
    if (read_text(&facts->caller, facts->args[row->path], text, sizeof text) <= 0) return -1;
    if (text[0] != '/') start = directory_of(&facts->caller, directory, to, LONGEST_PATH);
    if (start < 0 || (start && to[0] != '/')) return -1;
    snprintf(to + start, PATH_ROOM - (size_t)start, "%s%s", start > 1 ? "/" : "", text);
    return 0;
}

/* What every process sees otherwise, and where names come and go with processes. */
static int is_of_the_kernel(const char *path) {
    static const char *const OWN[] = {"/proc", "/dev/pts", "/dev/fd"};
    size_t i;
    for (i = 0; i < sizeof OWN / sizeof *OWN; i++) {
        const size_t size = strlen(OWN[i]);
        if (!strncmp(path, OWN[i], size) && (!path[size] || path[size] == '/')) return 1;
    }
    return 0;
}

int look_at_paths(const struct call_facts *facts, int on_host, int cached, struct psb_look *looks) {
    const struct path_argument *rows[PSB_LOOKS];
    const int count = path_arguments(facts->number, rows);
    const int root = count ? open_of(&facts->caller, "root", O_PATH | O_DIRECTORY) : -1;
    int i, refused = 0;
    if (root < 0) return 0;
    for (i = 0; i < count && refused >= 0; i++) {
        struct psb_look *look = &looks[refused];
        char path[PATH_ROOM];
        uint64_t flags;
        if (read_path(facts, rows[i], path) || is_of_the_kernel(path) || strlen(path) >= sizeof look->path) continue;
        memset(look, 0, offsetof(struct psb_look, path));
        memcpy(look->path, path, strlen(path) + 1);
        look->wanted = wanted_by(facts, rows[i], &flags);
        look->number = look_at(root, look, flags, on_host, cached);
        if (look->number == -EAGAIN)
            refused = -EAGAIN;
        else if (look->number)
            refused++;
    }
    close_own(root);
    return refused;
}

int moves_directory(const struct call_facts *facts) {
    const struct path_argument *rows[PSB_LOOKS];
    char path[PATH_ROOM];
    int root, fd, found;
    if (path_arguments(facts->number, rows) != PSB_LOOKS || read_path(facts, rows[0], path)) return 0;
    root = open_of(&facts->caller, "root", O_PATH | O_DIRECTORY);
    if (root < 0) return 0;
    fd = open_at(root, path, O_NOFOLLOW, 1);
    found = fd == -EAGAIN || (fd >= 0 && is_directory(fd));
    if (fd >= 0) close_own(fd);
    close_own(root);
    return found;
}
