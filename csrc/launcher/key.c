#include "key.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "../host/probe/probe.h"
#include "../host/spawn/secret.h"

#define KEY "pysandbox key"

extern char **environ;

int split(char **arguments, struct request *request) {
    int n = 0;
    if (!*arguments) return -1;
    request->flags = arguments;
    if (**arguments != '-') {
        request->argv = arguments;
    } else {
        while (arguments[n] && strcmp(arguments[n], "--")) n++;
        if (!arguments[n]) return -1;
        request->argv = arguments + n + 1;
    }
    request->n_flags = n;
    return request->argv[0] && *request->argv[0] ? 0 : -1;
}

static int compare(const void *one, const void *other) {
    return strcmp(*(char *const *)one, *(char *const *)other);
}

/* What leads a start of Python to other code, and so perhaps to another installation of this package. */
static int is_heeded(const char *variable) {
    static const char *const begin[] = {"PYTHON", "LD_", "GCONV_", "OPENSSL_"};
    size_t i;
    for (i = 0; i < sizeof begin / sizeof *begin; i++)
        if (!strncmp(variable, begin[i], strlen(begin[i]))) return 1;
    return 0;
}

/* In order, and counted. */
static void add_heeded(struct text *key) {
    size_t i, count = 0;
    char **held;
    for (i = 0; environ[i]; i++) count += (size_t)is_heeded(environ[i]);
    held = calloc(count + 1, sizeof *held);
    if (!held) {
        key->failed = 1;
        return;
    }
    for (i = count = 0; environ[i]; i++)
        if (is_heeded(environ[i])) held[count++] = environ[i];
    qsort(held, count, sizeof *held, compare);
    add_number(key, count);
    add_whole(key, "");
    for (i = 0; i < count; i++) add_whole(key, held[i]);
    free(held);
}

static void add_counted(struct text *key, uint64_t number) {
    add_number(key, number);
    add_whole(key, "");
}

static int describe(struct text *key, const char *self, const struct request *request) {
    struct stat user, mounts, processes;
    struct utsname system;
    char directory[PATH_MAX];
    int i, abi = psb_landlock_abi();
    if (stat("/proc/self/ns/user", &user) || stat("/proc/self/ns/mnt", &mounts)) return -1;
    if (stat("/proc/self/ns/pid", &processes)) return -1;
    if (uname(&system) || !getcwd(directory, sizeof directory) || *directory != '/') return -1;
    add_whole(key, KEY); /* what is signed with the same secret, an entry, begins with its ABI */
    add_whole(key, self);
    add_whole(key, system.release);
    add_counted(key, geteuid());
    add_counted(key, getegid());
    add_counted(key, user.st_ino);
    add_counted(key, mounts.st_ino);    /* a container shares the cache, and can do less; */
    add_counted(key, processes.st_ino); /* with the /proc of others no process of a cage could be named */
    add_counted(key, abi > 0 ? (uint64_t)abi : 0);
    add_whole(key, directory);
    add_counted(key, isatty(0) && isatty(1) && isatty(2));
    add_heeded(key);
    add_counted(key, (uint64_t)request->n_flags);
    for (i = 0; i < request->n_flags; i++) add_whole(key, request->flags[i]);
    add_whole(key, request->argv[0]);
    return key->failed ? -1 : 0;
}

int make_key(uint8_t key[SHA256_SIZE], const char *self, const struct request *request, const uint8_t *secret) {
    struct text described = {0};
    const int result = describe(&described, self, request);
    if (!result) hmac_sha256(secret, PSB_SECRET_SIZE, described.bytes, described.size, key);
    free(described.bytes);
    return result;
}
