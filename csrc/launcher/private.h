/* Whether a file or directory is its user's alone; pysandbox/launch/private.py asks the same. */
#ifndef PSB_LAUNCHER_PRIVATE_H
#define PSB_LAUNCHER_PRIVATE_H

#include <sys/stat.h>
#include <unistd.h>

static inline int is_private(const struct stat *found) {
    return found->st_uid == geteuid() && !(found->st_mode & 077);
}

#endif
