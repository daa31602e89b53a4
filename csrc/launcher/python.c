#include "python.h"

#include <stdlib.h>
#include <string.h>

#include "text.h"

char *python_command(const char *self) {
    const char *slash = strrchr(self, '/');
    struct text path = {0};
    add_bytes(&path, self, slash ? (size_t)(slash - self) + 1 : 0);
    add_whole(&path, PYTHON_COMMAND);
    if (!path.failed) return path.bytes;
    free(path.bytes);
    return NULL;
}
