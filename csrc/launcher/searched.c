/* The directories that were searched for what the host obeys (pysandbox/probe/searched.py): one is looked into again
 * only where a name in it came or went since. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "searched.h"

#define NS 1000000000ll
#define MOST_NAMES 50000 /* in all directories together */
#define ABSENT (-1)

struct names {
    char **name;
    size_t count, room;
};

static int64_t changed(const char *directory) {
    struct stat found;
    return stat(directory, &found) ? ABSENT : (int64_t)found.st_ctim.tv_sec * NS + found.st_ctim.tv_nsec;
}

static int is_directory(int folder, const struct dirent *entry) {
    struct stat found;
    if (entry->d_type != DT_UNKNOWN) return entry->d_type == DT_DIR;
    return !fstatat(folder, entry->d_name, &found, AT_SYMLINK_NOFOLLOW) && S_ISDIR(found.st_mode);
}

/* What a search heeds: names with a dot, those of a bare repository, and each directory where it goes on below. */
static int is_heeded(int folder, const struct dirent *entry, int below) {
    static const char *const bare[] = {"HEAD", "objects", "refs"};
    size_t i;
    if (*entry->d_name == '.') return 1;
    for (i = 0; i < 3; i++)
        if (!strcmp(entry->d_name, bare[i])) return 1;
    return below && is_directory(folder, entry);
}

static int add_name(struct names *to, const char *name) {
    if (to->count == to->room) {
        const size_t room = to->room ? to->room * 2 : 64;
        char **grown = realloc(to->name, room * sizeof *grown);
        if (!grown) return -1;
        to->name = grown;
        to->room = room;
    }
    to->name[to->count] = strdup(name);
    return to->name[to->count++] ? 0 : -1;
}

static int compare(const void *one, const void *other) {
    return strcmp(*(char *const *)one, *(char *const *)other);
}

/* The host is short of something, which says nothing of the directory. */
static int is_short(int number) {
    return number == EMFILE || number == ENFILE || number == ENOMEM;
}

/* 0, or -1 when there are more than `left` names, or the host is short of what it takes. One that cannot be read has
 * none. */
static int read_names(const char *directory, int below, long *left, struct names *found) {
    DIR *stream = opendir(directory);
    struct dirent *entry;
    int result = !stream && is_short(errno) ? -1 : 0;
    while (stream && !result && (entry = readdir(stream))) {
        if (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, "..")) continue;
        if (--*left <= 0)
            result = -1;
        else if (is_heeded(dirfd(stream), entry, below))
            result = add_name(found, entry->d_name);
    }
    if (stream) closedir(stream);
    if (found->count) qsort(found->name, found->count, sizeof *found->name, compare);
    return result;
}

static int are_names(const struct kept *kept, const struct psb_kept_searched *was, const struct names *found) {
    const uint32_t *names = table(kept, PSB_KEPT_NAMES);
    size_t i;
    if (was->count != found->count) return 0;
    for (i = 0; i < found->count; i++)
        if (strcmp(text_at(kept, names[was->first + i]), found->name[i])) return 0;
    return 1;
}

static int finds_the_same(const struct kept *kept, const struct psb_kept_searched *was, long *left) {
    struct names found = {0};
    const int result =
        !read_names(text_at(kept, was->directory), (int)was->below, left, &found) && are_names(kept, was, &found);
    while (found.count) free(found.name[--found.count]);
    free(found.name);
    return result;
}

int as_searched(const struct kept *kept) {
    const struct psb_kept_searched *row = table(kept, PSB_KEPT_SEARCHED);
    long left = MOST_NAMES;
    size_t i;
    for (i = 0; i < count_of(kept, PSB_KEPT_SEARCHED); i++)
        if (changed(text_at(kept, row[i].directory)) != row[i].when && !finds_the_same(kept, &row[i], &left)) return 0;
    return 1;
}
