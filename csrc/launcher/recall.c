/* Reads the entry of a key from the user's cache, $XDG_CACHE_HOME/pysandbox or ~/.cache/pysandbox.
 *
 * Whoever can write there could choose the next command's cage, and a cage that was granted a home directory can. So an
 * entry is believed for its signature alone; owner, mode and symlinks are looked at besides. It is read once, whole,
 * and what is used is what was verified. */
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "host.h"
#include "private.h"
#include "recall.h"

#define NAME_BYTES 16 /* of the key's hash */

/* A descriptor of the directory; -1 for one that is not ours alone, or is reached by a symlink. */
static int open_folder(void) {
    const char *base = getenv("XDG_CACHE_HOME");
    struct text path = {0};
    struct stat found;
    int folder = -1;
    if (base && *base == '/') {
        add_text(&path, base);
    } else {
        base = getenv("HOME");
        if (!base || *base != '/') return -1;
        add_text(&path, base);
        add_text(&path, "/.cache");
    }
    add_whole(&path, "/pysandbox");
    if (!path.failed) folder = psb_open_inside(AT_FDCWD, path.bytes, O_RDONLY | O_DIRECTORY, 0, RESOLVE_NO_SYMLINKS);
    free(path.bytes);
    if (folder >= 0 && !fstat(folder, &found) && is_private(&found)) return folder;
    if (folder >= 0) close(folder);
    return -1;
}

static uint8_t *read_whole(int fd, size_t size) {
    uint8_t *bytes = malloc(size + 1);
    size_t got = 0;
    while (bytes && got <= size) { /* one byte more than there should be */
        const ssize_t some = read(fd, bytes + got, size + 1 - got);
        if (some < 0 && errno == EINTR) continue;
        if (some <= 0) break;
        got += (size_t)some;
    }
    if (got == size) return bytes;
    free(bytes);
    return NULL;
}

static uint8_t *read_entry(int folder, const uint8_t *key, size_t *size) {
    uint8_t digest[SHA256_SIZE], *bytes = NULL;
    char name[2 * NAME_BYTES + 1];
    struct stat found;
    int fd;
    sha256_of(key, SHA256_SIZE, digest);
    to_hex(digest, NAME_BYTES, name);
    fd = openat(folder, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0) return NULL;
    if (!fstat(fd, &found) && S_ISREG(found.st_mode) && is_private(&found) && found.st_size > 0 &&
        found.st_size <= PSB_KEPT_LARGEST) {
        *size = (size_t)found.st_size;
        bytes = read_whole(fd, *size);
    }
    close(fd);
    return bytes;
}

static int is_of_key(const struct kept *kept, const uint8_t *key) {
    return count_of(kept, PSB_KEPT_KEY) == SHA256_SIZE && !memcmp(table(kept, PSB_KEPT_KEY), key, SHA256_SIZE);
}

int recall(const uint8_t key[SHA256_SIZE], const uint8_t *secret, struct kept *kept) {
    const int folder = open_folder();
    size_t size = 0;
    if (folder < 0) return -1;
    kept->bytes = read_entry(folder, key, &size);
    close(folder);
    if (!kept->bytes) return -1;
    return is_signed(kept->bytes, size, secret) && !check_kept(kept, size) && is_of_key(kept, key) ? 0 : -1;
}
