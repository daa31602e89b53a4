/* Whether an open file is still the inode that the plan was made for. */
#include <linux/stat.h>

#include "setup.h"

#define AT_EMPTY_PATH_ 0x1000
#define ESTALE_ (-116)
#define S_IFMT_ 0170000
#define S_IFDIR_ 0040000

/* glibc's makedev, which is what Python's st_dev holds. */
static uint64_t device_number(const struct statx *facts) {
    uint64_t major = facts->stx_dev_major, minor = facts->stx_dev_minor;
    return (major & 0xfff) << 8 | (major & ~0xfffULL) << 32 | (minor & 0xff) | (minor & ~0xffULL) << 12;
}

long look(long fd, uint64_t dev, uint64_t ino, int *is_directory) {
    struct statx facts;
    long result = sys_call(SYS_statx, fd, "", AT_EMPTY_PATH_, STATX_TYPE | STATX_INO, &facts, 0);
    if (result < 0) return result;
    *is_directory = (facts.stx_mode & S_IFMT_) == S_IFDIR_;
    return ino && (facts.stx_ino != ino || device_number(&facts) != dev) ? ESTALE_ : 0;
}
