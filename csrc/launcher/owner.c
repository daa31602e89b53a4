#include "owner.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

int start_of(int pid, unsigned long long *start) {
    char path[40], text[1024], *at;
    int fd, field;
    ssize_t got;
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return -1;
    got = read(fd, text, sizeof text - 1);
    close(fd);
    if (got <= 0) return -1;
    text[got] = 0;
    at = strrchr(text, ')');
    for (field = 2; at && field < 22; field++) at = strchr(at + 1, ' ');
    return at && sscanf(at, " %llu", start) == 1 ? 0 : -1;
}
