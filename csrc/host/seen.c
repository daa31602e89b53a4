/* Whether paths that were looked at are still what they were: one stat each, in one call from Python. */
#include <sys/stat.h>

#include "probe.h"

int psb_still_there(const struct psb_seen *seen, size_t count) {
    size_t i;
    for (i = 0; i < count; i++) {
        struct stat now;
        const int there = stat(seen[i].path, &now) == 0;
        if (there != (seen[i].ino != 0)) return 0;
        if (there && (now.st_ino != seen[i].ino || now.st_dev != seen[i].dev)) return 0;
    }
    return 1;
}
