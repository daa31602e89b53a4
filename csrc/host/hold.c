/* Who else can write the memory of a process that is about to exec: whoever shares it (clone with CLONE_VM), in its own
 * thread group or in another. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/kcmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "arguments.h"
#include "guest.h"

#define MOST_TASKS 65536

/* Each pid in the list of children of one thread. 0, or -errno from `visit`, which stops. */
static int each_child(int pid, int tid, int (*visit)(int child, void *context), void *context) {
    char path[64], text[4096], *at, *end;
    size_t kept = 0;
    ssize_t got;
    int fd, result = 0;
    snprintf(path, sizeof path, "/proc/%d/task/%d/children", pid, tid);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return errno == ENOENT || errno == ESRCH ? 0 : -errno;
    while (!result && (got = read(fd, text + kept, sizeof text - 1 - kept)) > 0) {
        text[kept + (size_t)got] = 0;
        for (at = text; !result && (end = strchr(at, ' ')); at = end + 1) result = visit(atoi(at), context);
        kept = strlen(at);
        memmove(text, at, kept + 1);
    }
    close(fd);
    return result;
}

#define MOST_ANCESTORS 64

struct search {
    int tid, group;
    int tasks;
    int ancestors[MOST_ANCESTORS];
    int n_ancestors;
};

static int parent_of(int pid) {
    char path[64], text[256], *end;
    ssize_t got;
    int fd, parent = 0;
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return 0;
    got = read(fd, text, sizeof text - 1);
    close(fd);
    text[got > 0 ? got : 0] = 0;
    end = strrchr(text, ')'); /* the name before it may hold anything; it is cut to 15 bytes */
    return end && sscanf(end, ") %*c %d", &parent) == 1 ? parent : 0;
}

static void find_ancestors(struct search *search, int init_pid) {
    int pid = parent_of(search->group);
    while (pid > 0 && pid != init_pid && search->n_ancestors < MOST_ANCESTORS) {
        search->ancestors[search->n_ancestors++] = pid;
        pid = parent_of(pid);
    }
}

static int is_ancestor(const struct search *search, int pid) {
    int i;
    for (i = 0; i < search->n_ancestors; i++)
        if (search->ancestors[i] == pid) return 1;
    return 0;
}

static int is_single(int pid) {
    char path[64];
    struct dirent *entry;
    int threads = 0;
    DIR *tasks;
    snprintf(path, sizeof path, "/proc/%d/task", pid);
    tasks = opendir(path);
    if (!tasks) return 0;
    while ((entry = readdir(tasks)))
        if (entry->d_name[0] != '.') threads++;
    closedir(tasks);
    return threads == 1;
}

/* A parent of one thread that waits for its vfork child does nothing before that child execs or ends, and the child is
 * the caller, or an ancestor of it that waits in the same way. */
static int waits_for_vfork(const struct search *search, int pid) {
    char path[64], text[128];
    ssize_t got;
    long number = -1;
    int fd;
    if (!is_ancestor(search, pid) || !is_single(pid)) return 0;
    snprintf(path, sizeof path, "/proc/%d/syscall", pid);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return 0;
    got = read(fd, text, sizeof text - 1);
    close(fd);
    text[got > 0 ? got : 0] = 0;
    if (sscanf(text, "%ld", &number) != 1) return 0; /* "running" */
#ifdef SYS_vfork
    if (number == SYS_vfork) return 1;
#endif
    return number == SYS_clone;
}

static int shares_memory(int tid, int other) {
    const long order = syscall(SYS_kcmp, tid, other, KCMP_VM, 0, 0);
    return order == 0 || (order < 0 && errno != ESRCH);
}

static int look_at(int pid, void *context);

/* The children of every thread of `pid`. */
static int look_below(int pid, struct search *search) {
    char path[64];
    struct dirent *entry;
    int result = 0;
    DIR *tasks;
    snprintf(path, sizeof path, "/proc/%d/task", pid);
    tasks = opendir(path);
    if (!tasks) return errno == ENOENT || errno == ESRCH ? 0 : -errno;
    while (!result && (entry = readdir(tasks)))
        if (entry->d_name[0] != '.') {
            const int tid = atoi(entry->d_name);
            if (++search->tasks > MOST_TASKS) result = -EAGAIN;
            if (pid == search->group && tid != search->tid) result = -EBUSY;
            if (!result) result = each_child(pid, tid, look_at, search);
        }
    closedir(tasks);
    return result;
}

static int look_at(int pid, void *context) {
    struct search *search = context;
    if (pid != search->group && shares_memory(search->tid, pid) && !waits_for_vfork(search, pid)) return -EBUSY;
    return look_below(pid, search);
}

/* A command before its first exec is a copy of cage-init, into which nobody in the cage can look or write. */
static int is_init(int tid, int init_pid) {
    return syscall(SYS_kcmp, tid, init_pid, KCMP_VM, 0, 0) == 0;
}

int hold_arguments(struct hold *hold, int tid, int init_pid) {
    struct search search = {.tid = tid, .group = thread_group(tid)};
    hold->tid = tid;
    hold->trusted = is_init(tid, init_pid);
    if (hold->trusted) return 0;
    find_ancestors(&search, init_pid);
    if (search.group <= 0) return -ESRCH;
    return look_below(init_pid, &search);
}

void release_arguments(struct hold *hold) {
    hold->tid = 0;
}
