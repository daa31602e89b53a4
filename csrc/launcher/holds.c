#include "holds.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../host/probe/seen.h"
#include "cgroup.h"
#include "searched.h"

#define NS 1000000000ull

static int are_equal(const char *one, const char *other) {
    return one && other ? !strcmp(one, other) : one == other;
}

static int variables_hold(const struct kept *kept) {
    const struct psb_kept_pair *row = table(kept, PSB_KEPT_VARIABLES);
    size_t i;
    for (i = 0; i < count_of(kept, PSB_KEPT_VARIABLES); i++)
        if (!are_equal(getenv(text_at(kept, row[i].name)), value_of(kept, &row[i]))) return 0;
    return 1;
}

static uint64_t ns_of(const struct timespec *time) {
    return (uint64_t)time->tv_sec * NS + (uint64_t)time->tv_nsec;
}

/* What changes with a file's content, and when another takes its place. A link that leads nowhere is a name. */
static int stamp_holds(const struct psb_kept_stamp *was, const char *path) {
    struct stat now;
    if (stat(path, &now) && lstat(path, &now)) return !was->there;
    return was->there && now.st_dev == was->dev && now.st_ino == was->ino && (uint64_t)now.st_size == was->size &&
           ns_of(&now.st_mtim) == was->mtime_ns && ns_of(&now.st_ctim) == was->ctime_ns;
}

static int stamps_hold(const struct kept *kept) {
    const struct psb_kept_stamp *row = table(kept, PSB_KEPT_STAMPS);
    size_t i;
    for (i = 0; i < count_of(kept, PSB_KEPT_STAMPS); i++)
        if (!stamp_holds(&row[i], text_at(kept, row[i].path))) return 0;
    return 1;
}

/* The program behind a path, as pysandbox/policy/search.py sees it. */
static const char *leads_to(const char *path, char *real) {
    struct stat found;
    if (stat(path, &found) || !S_ISREG(found.st_mode) || access(path, X_OK)) return NULL;
    return realpath(path, real);
}

static int programs_hold(const struct kept *kept) {
    const struct psb_kept_pair *row = table(kept, PSB_KEPT_PROGRAMS);
    char real[PATH_MAX];
    size_t i;
    for (i = 0; i < count_of(kept, PSB_KEPT_PROGRAMS); i++)
        if (!are_equal(leads_to(text_at(kept, row[i].name), real), value_of(kept, &row[i]))) return 0;
    return 1;
}

/* Resolves a path as far as it exists. */
static int leads_to_place(const char *path, const char *expected) {
    char above[PATH_MAX], real[PATH_MAX];
    const size_t size = strlen(path);
    size_t cut = size, length;
    if (*path != '/' || size >= sizeof above) return 0;
    memcpy(above, path, size + 1);
    while (!realpath(above, real)) {
        while (cut && path[cut - 1] != '/') cut--;
        if (cut < 2) return 0;
        above[--cut] = 0;
    }
    length = strlen(real);
    if (length == 1) length = 0; /* the root */
    return cut == size ? !strcmp(real, expected)
                       : !strncmp(real, expected, length) && !strcmp(expected + length, path + cut);
}

static int place_holds(const struct kept *kept, const struct psb_kept_place *was) {
    const char *path = text_at(kept, was->path);
    struct stat now;
    if (!leads_to_place(path, text_at(kept, was->real))) return 0;
    if (stat(path, &now)) return !was->there;
    return was->there && now.st_dev == was->dev && now.st_ino == was->ino && now.st_uid == was->uid &&
           now.st_mode == was->mode;
}

static int places_hold(const struct kept *kept) {
    const struct psb_kept_place *row = table(kept, PSB_KEPT_PLACES);
    size_t i;
    for (i = 0; i < count_of(kept, PSB_KEPT_PLACES); i++)
        if (!place_holds(kept, &row[i])) return 0;
    return 1;
}

int may_begin(const struct kept *kept) {
    return variables_hold(kept) && cgroup_holds(kept);
}

int still_holds(const struct kept *kept) {
    return stamps_hold(kept) && programs_hold(kept) && places_hold(kept) &&
           psb_still_there(table(kept, PSB_KEPT_SEEN), count_of(kept, PSB_KEPT_SEEN)) && as_searched(kept);
}
