#include "cgroup.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <linux/openat2.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "host.h"
#include "owner.h"
#include "text.h"

#define PREFIX "pysandbox-"
#define PATIENCE_MS 5000 /* the kernel may take to empty a group */
#define LONGEST 4096     /* of a control file that is read */

/* ---- control files ----------------------------------------------------------------------------------------------- */

/* What a file says, ended by a NUL; "" when there is none. */
static const char *read_file(int group, const char *name, char *text) {
    const int fd = openat(group, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    const ssize_t got = fd >= 0 ? read(fd, text, LONGEST - 1) : -1;
    if (fd >= 0) close(fd);
    text[got < 0 ? 0 : got] = 0;
    return text;
}

/* 0, or -errno. */
static int write_file(int group, const char *name, const char *value) {
    const int fd = openat(group, name, O_WRONLY | O_CLOEXEC | O_NOFOLLOW);
    const size_t size = strlen(value);
    int result = 0;
    if (fd < 0) return -errno;
    if (write(fd, value, size) != (ssize_t)size) result = errno ? -errno : -EIO;
    close(fd);
    return result;
}

/* The number behind a key of a flat keyed file (cgroup-v2.rst), 0 when it says nothing of it. */
static unsigned long long number_of(int group, const char *name, const char *key) {
    char text[LONGEST], *rest, *line;
    const size_t size = strlen(key);
    (void)read_file(group, name, text);
    for (line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest))
        if (!strncmp(line, key, size) && line[size] == ' ') return strtoull(line + size, NULL, 10);
    return 0;
}

/* Whether a word stands among those of a text, which spaces and newlines part. */
static int has_word(const char *text, const char *word) {
    const size_t size = strlen(word);
    const char *at = text;
    while ((at = strstr(at, word))) {
        const char after = at[size];
        if ((at == text || at[-1] == ' ') && (!after || after == ' ' || after == '\n')) return 1;
        at += size;
    }
    return 0;
}

/* ---- where it is made -------------------------------------------------------------------------------------------- */

/* A descriptor of the group below which it is made, which is the very one that was seen. Or -1. */
static int open_parent(const struct kept *kept) {
    const struct psb_kept_place *was = table(kept, PSB_KEPT_GROUP);
    const int fd = psb_open_inside(AT_FDCWD, text_at(kept, was->path), O_RDONLY | O_DIRECTORY, 0, RESOLVE_NO_SYMLINKS);
    struct stat now;
    struct statfs tree;
    if (fd < 0) return -1;
    if (was->there && !fstat(fd, &now) && now.st_dev == was->dev && now.st_ino == was->ino && now.st_uid == was->uid &&
        now.st_mode == was->mode && !fstatfs(fd, &tree) && tree.f_type == CGROUP2_SUPER_MAGIC)
        return fd;
    close(fd);
    return -1;
}

static int is_in(const char *group) {
    char text[LONGEST], *rest, *line;
    (void)read_file(AT_FDCWD, "/proc/self/cgroup", text);
    for (line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest))
        if (!strncmp(line, "0::", 3)) return !strcmp(line + 3, group);
    return 0;
}

int cgroup_holds(const struct kept *kept) {
    const uint32_t *row = table(kept, PSB_KEPT_HANDED);
    char handed[LONGEST];
    int parent, holds = 1;
    size_t i;
    if (!count_of(kept, PSB_KEPT_GROUP)) return 1;
    if (!is_in(text_named(kept, PSB_TEXT_OWN_GROUP))) return 0;
    parent = open_parent(kept);
    if (parent < 0) return 0;
    (void)read_file(parent, "cgroup.subtree_control", handed);
    for (i = 0; i < count_of(kept, PSB_KEPT_HANDED); i++) holds &= has_word(handed, text_at(kept, row[i]));
    close(parent);
    return holds;
}

/* ---- what others have left --------------------------------------------------------------------------------------- */

static unsigned long long pid_namespace(void) {
    struct stat found;
    return stat("/proc/self/ns/pid", &found) ? 0 : found.st_ino;
}

/* Whether a group is that of a process which can be told from here to have ended. */
static int has_no_owner(const char *name, unsigned long long here) {
    unsigned long long namespace, start, now;
    char end;
    int pid;
    if (sscanf(name, PREFIX "%llu-%d-%llu%c", &namespace, &pid, &start, &end) != 4 || end != '-') return 0;
    return namespace == here && (start_of(pid, &now) || now != start);
}

/* Removes the groups of those who were killed: empty ones, for the kernel removes no other. */
static void remove_left(int parent, unsigned long long here) {
    const int fd = openat(parent, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *folder = fd >= 0 ? fdopendir(fd) : NULL;
    struct dirent *each;
    if (!folder) {
        if (fd >= 0) close(fd);
        return;
    }
    while ((each = readdir(folder)))
        if (each->d_type == DT_DIR && has_no_owner(each->d_name, here)) unlinkat(parent, each->d_name, AT_REMOVEDIR);
    closedir(folder);
}

/* ---- beginning and end ------------------------------------------------------------------------------------------- */

static int apply(const struct cgroup *cgroup, const struct kept *kept) {
    const struct psb_kept_setting *row = table(kept, PSB_KEPT_SETTINGS);
    size_t i;
    for (i = 0; i < count_of(kept, PSB_KEPT_SETTINGS); i++) {
        const int result = write_file(cgroup->fd, text_at(kept, row[i].file), text_at(kept, row[i].value));
        if (result && !(result == -ENOENT && row[i].optional)) return -1;
    }
    return 0;
}

static int name_it(struct cgroup *cgroup, const struct kept *kept, const char *id, unsigned long long here) {
    const struct psb_kept_place *parent = table(kept, PSB_KEPT_GROUP);
    struct text path = {0};
    unsigned long long start;
    if (!here || start_of(getpid(), &start)) return -1;
    snprintf(cgroup->name, sizeof cgroup->name, PREFIX "%llu-%d-%llu-%s", here, getpid(), start, id);
    add_text(&path, text_at(kept, parent->path));
    add_text(&path, "/");
    add_whole(&path, cgroup->name);
    cgroup->path = path.failed ? NULL : path.bytes;
    return cgroup->path ? 0 : -1;
}

int open_cgroup(struct cgroup *cgroup, const struct kept *kept, const char *id) {
    const unsigned long long here = pid_namespace();
    cgroup->parent = cgroup->fd = -1;
    if (!count_of(kept, PSB_KEPT_GROUP)) return 0;
    cgroup->parent = open_parent(kept);
    if (cgroup->parent < 0 || name_it(cgroup, kept, id, here)) return -1;
    remove_left(cgroup->parent, here);
    if (mkdirat(cgroup->parent, cgroup->name, 0700)) return -1;
    cgroup->fd = openat(cgroup->parent, cgroup->name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (cgroup->fd >= 0 && !apply(cgroup, kept)) return 0;
    close_cgroup(cgroup);
    return -1;
}

int has_refused(const struct cgroup *cgroup) {
    if (cgroup->fd < 0) return 0;
    return number_of(cgroup->fd, "memory.events", "oom_kill") || number_of(cgroup->fd, "pids.events", "max");
}

static void await_empty(int group) {
    const int fd = openat(group, "cgroup.events", O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    struct pollfd events = {fd, POLLPRI, 0};
    while (fd >= 0 && number_of(group, "cgroup.events", "populated") && poll(&events, 1, PATIENCE_MS) > 0) {}
    if (fd >= 0) close(fd);
}

void close_cgroup(struct cgroup *cgroup) {
    if (cgroup->fd >= 0 && number_of(cgroup->fd, "cgroup.events", "populated")) {
        (void)write_file(cgroup->fd, "cgroup.kill", "1");
        await_empty(cgroup->fd);
    }
    if (cgroup->fd >= 0) close(cgroup->fd);
    if (cgroup->parent >= 0) {
        if (*cgroup->name) unlinkat(cgroup->parent, cgroup->name, AT_REMOVEDIR);
        close(cgroup->parent);
    }
    free(cgroup->path);
    cgroup->path = NULL;
    cgroup->parent = cgroup->fd = -1;
}
