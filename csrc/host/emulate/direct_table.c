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

/* Everybody else's calls wait meanwhile, so it is bounded as a whole: what is larger is not looked through. */
#define MOST_LOOKS 256 /* at descriptors, and at lines of epoll sets */
#define SET_LOOKS 16   /* what opening one set counts for */
#define EVENT_POLL "anon_inode:[eventpoll]"

static FILE *open_info(int tid, int fd) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/fdinfo/%d", tid, fd);
    return fopen(path, "re");
}

/* 1 when the set holds the inode, or more than is looked at. */
static int watches(int tid, int epoll, ino_t inode, int *left) {
    FILE *info = (*left -= SET_LOOKS) < 0 ? NULL : open_info(tid, epoll);
    char line[256];
    int found = !info;
    if (!info) return 1;
    while (!found && fgets(line, sizeof line, info)) {
        const char *number = strncmp(line, "tfd:", 4) ? NULL : strstr(line, " ino:");
        found = --*left < 0 || (number && strtoul(number + 5, NULL, 16) == inode);
    }
    fclose(info);
    return found;
}

static int is_close_on_exec(int tid, int fd) {
    FILE *info = open_info(tid, fd);
    char line[256];
    int result = -1;
    if (!info) return -1;
    while (result < 0 && fgets(line, sizeof line, info))
        if (!strncmp(line, "flags:", 6)) result = (strtoul(line + 6, NULL, 8) & O_CLOEXEC) != 0;
    fclose(info);
    return result;
}

int is_sole_reference(int tid, int fd, int socket, int *close_on_exec) {
    char path[64], same[64], link[64];
    struct stat about;
    struct dirent *each;
    int alone = 1, left = MOST_LOOKS;
    DIR *table;
    if (fstat(socket, &about) < 0 || (*close_on_exec = is_close_on_exec(tid, fd)) < 0) return 0;
    snprintf(same, sizeof same, "socket:[%lu]", (unsigned long)about.st_ino);
    snprintf(path, sizeof path, "/proc/%d/fd", tid);
    table = opendir(path);
    if (!table) return 0;
    while (alone && (each = readdir(table))) {
        const ssize_t size = readlinkat(dirfd(table), each->d_name, link, sizeof link - 1);
        if (--left < 0) alone = 0;
        if (size < 0) continue;
        link[size] = 0;
        if (!strcmp(link, EVENT_POLL)) alone = !watches(tid, atoi(each->d_name), about.st_ino, &left);
        if (!strcmp(link, same) && atoi(each->d_name) != fd) alone = 0;
    }
    closedir(table);
    return alone;
}
