/* What else in a caged process's descriptor table refers to its socket. An epoll set keeps the file, not the number
 * (epoll(7), Q6), so a program that registers a socket before it connects would get no events of the one that replaces
 * it, and a duplicate would stay the old socket. Read from /proc as the host sees it. */
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "direct.h"

/* Bounded as a whole, but for one set: the kernel writes down all that it watches before the first line can be read,
 * which takes a second for a million. So this is never done under a mutex (notify/looks.h). */
#define MOST_LOOKS 256      /* at descriptors, and at lines of epoll sets */
#define SET_LOOKS 16        /* what opening one set counts for */
#define LONGEST_LOOK_MS 100 /* then no other set is opened */
#define EVENT_POLL "anon_inode:[eventpoll]"

struct bounds {
    int left;
    uint64_t until_ms;
};

static FILE *open_info(const struct target *caller, int fd) {
    char name[32];
    FILE *info;
    int file;
    snprintf(name, sizeof name, "fdinfo/%d", fd);
    file = open_of(caller, name, O_RDONLY);
    info = file < 0 ? NULL : fdopen(file, "r");
    if (file >= 0 && !info) close_own(file);
    return info;
}

static int may_open_set(struct bounds *bounds) {
    return (bounds->left -= SET_LOOKS) >= 0 && now_ms() < bounds->until_ms;
}

/* 1 when the set holds the inode, or more than is looked at. */
static int watches(const struct target *caller, int epoll, uint64_t inode, struct bounds *bounds) {
    FILE *info = may_open_set(bounds) ? open_info(caller, epoll) : NULL;
    char line[256];
    int found = !info;
    if (!info) return 1;
    while (!found && fgets(line, sizeof line, info)) {
        const char *number = strncmp(line, "tfd:", 4) ? NULL : strstr(line, " ino:");
        found = --bounds->left < 0 || (number && strtoul(number + 5, NULL, 16) == inode);
    }
    fclose(info);
    return found;
}

static int is_close_on_exec(const struct target *caller, int fd) {
    FILE *info = open_info(caller, fd);
    char line[256];
    int result = -1;
    if (!info) return -1;
    while (result < 0 && fgets(line, sizeof line, info))
        if (!strncmp(line, "flags:", 6)) result = (strtoul(line + 6, NULL, 8) & O_CLOEXEC) != 0;
    fclose(info);
    return result;
}

static DIR *open_table(const struct target *caller) {
    const int fd = open_of(caller, "fd", O_RDONLY | O_DIRECTORY);
    DIR *table = fd < 0 ? NULL : fdopendir(fd);
    if (fd >= 0 && !table) close_own(fd);
    return table;
}

int is_sole_reference(const struct target *caller, int fd, uint64_t inode, int *close_on_exec) {
    struct bounds bounds = {MOST_LOOKS, now_ms() + LONGEST_LOOK_MS};
    char same[64], link[64];
    struct dirent *each;
    int alone = 1;
    DIR *table;
    if ((*close_on_exec = is_close_on_exec(caller, fd)) < 0) return 0;
    snprintf(same, sizeof same, "socket:[%lu]", (unsigned long)inode);
    table = open_table(caller);
    if (!table) return 0;
    while (alone && (each = readdir(table))) {
        const ssize_t size = readlinkat(dirfd(table), each->d_name, link, sizeof link - 1);
        if (--bounds.left < 0) alone = 0;
        if (size < 0) continue;
        link[size] = 0;
        if (!strcmp(link, EVENT_POLL)) alone = !watches(caller, atoi(each->d_name), inode, &bounds);
        if (!strcmp(link, same) && atoi(each->d_name) != fd) alone = 0;
    }
    closedir(table);
    return alone;
}
