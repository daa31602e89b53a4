/* A file that was looked at since the coarse clock has last moved has its next change stamped by the fine clock, and
 * from then on no file of such a file system gets an earlier stamp (the kernel's
 * Documentation/filesystems/multigrain-ts.rst). So it is changed, looked at, and changed once more. Before Linux 6.13
 * this is the coarse clock. */
#include "stamp.h"

#include <errno.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static int64_t stamp_by(int fd) {
    struct stat found;
    int changes;
    if (fstat(fd, &found)) return -errno;
    for (changes = 0; changes < 2; changes++)
        if (fchmod(fd, found.st_mode & 07777) || fstat(fd, &found)) return -errno;
    return (int64_t)found.st_ctim.tv_sec * 1000000000 + found.st_ctim.tv_nsec;
}

int64_t psb_stamp_now(int fd) {
    int64_t stamp;
    int made;
    if (fd >= 0) return stamp_by(fd);
    made = memfd_create("pysandbox-now", MFD_CLOEXEC);
    if (made < 0) return -errno;
    stamp = stamp_by(made);
    close(made);
    return stamp;
}
