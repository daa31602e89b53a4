/* A directory below a PID namespace's /proc is a pidfd of the process: whoever has that number later is not reached. */
#include "signal_below.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static void signal_one(int proc, const char *pid, int number) {
    const int fd = openat(proc, pid, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return; /* it has ended */
    (void)syscall(SYS_pidfd_send_signal, fd, number, NULL, 0);
    close(fd);
}

int psb_signal_below(int proc, int number) {
    const int fd = openat(proc, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *directory = fd < 0 ? NULL : fdopendir(fd);
    const struct dirent *entry;
    if (!directory) {
        const int failed = errno;
        if (fd >= 0) close(fd);
        return -failed;
    }
    while ((entry = readdir(directory)))
        if (isdigit((unsigned char)*entry->d_name) && strcmp(entry->d_name, "1"))
            signal_one(dirfd(directory), entry->d_name, number);
    closedir(directory);
    return 0;
}
