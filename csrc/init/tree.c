/* The processes of one command, found through /proc: its session (setsid(2)), and whatever descends from it, in
 * whatever session. What has made a session of its own and lost its parent is nobody's any more: it ends with the cage.
 *
 * Parents are read before anybody is signalled, since who dies gives its children away; and before a SIGKILL everybody
 * is stopped, until a look finds nobody who moves and could fork. */
#include "../uapi.h"
#include "init.h"

#define SEEN 8192 /* in a fuller /proc the rest is judged by its session alone */
#define ROUNDS 64 /* of stopping a tree that goes on growing */

struct process {
    int32_t pid, parent;
    uint8_t selected, moves;
};

static struct process seen[SEEN];
static uint32_t n_seen;

struct stat_line { /* the fields of /proc/<pid>/stat that are needed here */
    char state;
    long parent, session;
};

long number_at(const char **at, const char *end) {
    long value = 0;
    for (; *at < end && **at == ' '; ++*at) {}
    for (; *at < end && **at != ' '; ++*at)
        if (**at >= '0' && **at <= '9') value = value * 10 + (**at - '0');
    return value;
}

/* Where opening is decided by the supervisor, the filter lets openat2 pass for us alone: what ends a command must not
 * wait for anybody. Elsewhere it answers ENOSYS, as an older kernel would. */
long open_own(const char *path, int flags) {
    struct {
        uint64_t flags, mode, resolve;
    } how = {(uint64_t)flags, 0, 0};
    const long fd = sys_call(SYS_openat2, AT_FDCWD, path, &how, sizeof how, 0, 0);
    return fd == -ENOSYS ? sys_open(path, flags, 0) : fd;
}

/* The name in field 2 may hold anything, so count from its last ')'. */
static int read_stat(const char *name, struct stat_line *line) {
    char path[64], text[512];
    const char *at, *end;
    size_t n = text_copy(path, sizeof path, "/proc/");
    long fd, got;
    n += text_copy(path + n, sizeof path - n, name);
    text_copy(path + n, sizeof path - n, "/stat");
    fd = open_own(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return -1;
    got = sys_call(SYS_read, fd, text, sizeof text, 0, 0, 0);
    sys_close((int)fd);
    if (got <= 0) return -1;
    end = text + got;
    for (at = end - 1; at > text && *at != ')'; at--) {}
    if (end - at < 4) return -1;
    line->state = at[2];
    at += 3;
    line->parent = number_at(&at, end);
    number_at(&at, end); /* the process group */
    line->session = number_at(&at, end);
    return 0;
}

static long number_of(const char *name) {
    long value = 0;
    for (; *name; name++) {
        if (*name < '0' || *name > '9') return 0;
        value = value * 10 + (*name - '0');
    }
    return value;
}

/* Calls `visit` for every process but us; -1 when there is no /proc to look in. */
static int walk(void (*visit)(long pid, const struct stat_line *line, long about), long about) {
    static uint8_t entries[8192] __attribute__((aligned(8)));
    long fd = open_own("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC), got, at;
    if (fd < 0) return -1;
    while ((got = sys_call(SYS_getdents64, fd, entries, sizeof entries, 0, 0, 0)) > 0)
        for (at = 0; at < got;) {
            const uint8_t *entry = entries + at; /* struct linux_dirent64: ino 8, off 8, reclen 2, type 1, name */
            const char *name = (const char *)entry + 19;
            const long pid = number_of(name);
            struct stat_line line;
            uint16_t size;
            memcpy(&size, entry + 16, sizeof size);
            if (pid > 1 && !read_stat(name, &line)) visit(pid, &line, about);
            at += size;
        }
    sys_close((int)fd);
    return 0;
}

/* A process that has stopped, or waits in the kernel and will stop before it gets back to its program, is still. */
static int is_moving(char state) {
    return state != 'T' && state != 't' && state != 'D' && state != 'Z' && state != 'X';
}

/* A command that is still being started leads its session already, as far as we are concerned: it may be held up
 * before its setsid. */
static void note_process(long pid, const struct stat_line *line, long leader) {
    struct process *process = &seen[n_seen];
    if (n_seen == SEEN) return;
    n_seen++;
    process->pid = (int32_t)pid;
    process->parent = (int32_t)line->parent;
    process->selected = pid == leader || line->session == leader;
    process->moves = (uint8_t)is_moving(line->state);
}

/* /proc is in the order of pids, and so is the table. */
static const struct process *find(int32_t pid) {
    uint32_t low = 0, high = n_seen;
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        if (seen[middle].pid < pid)
            low = middle + 1;
        else
            high = middle;
    }
    return low < n_seen && seen[low].pid == pid ? &seen[low] : NULL;
}

/* Whoever descends from one that is meant is meant. Children mostly have the higher pids: one pass is mostly enough. */
static void mark_descendants(void) {
    int changed = 1;
    while (changed) {
        uint32_t i;
        changed = 0;
        for (i = 0; i < n_seen; i++) {
            const struct process *parent = seen[i].selected ? NULL : find(seen[i].parent);
            if (!parent || !parent->selected) continue;
            seen[i].selected = 1;
            changed = 1;
        }
    }
}

static int scan_proc(int32_t leader) {
    n_seen = 0;
    if (walk(note_process, leader)) return -1;
    mark_descendants();
    return 0;
}

/* How many of them move. */
static uint32_t signal_seen(int32_t signal, int only_moving) {
    uint32_t i, moving = 0;
    for (i = 0; i < n_seen; i++) {
        if (!seen[i].selected) continue;
        moving += seen[i].moves;
        if (seen[i].moves || !only_moving) sys_call(SYS_kill, seen[i].pid, signal, 0, 0, 0, 0);
    }
    return moving;
}

static int stop_all(int32_t leader) {
    int round;
    for (round = 0; round < ROUNDS; round++) {
        if (scan_proc(leader)) return -1;
        if (!signal_seen(SIGSTOP, round > 0)) break;
    }
    return 0;
}

static int32_t walk_signal;

static void signal_member(long pid, const struct stat_line *line, long leader) {
    if (line->session == leader) sys_call(SYS_kill, pid, walk_signal, 0, 0, 0, 0);
}

void signal_tree(int32_t leader, int32_t signal) {
    if (!(signal == SIGKILL ? stop_all(leader) : scan_proc(leader))) {
        signal_seen(signal, 0);
        walk_signal = signal;
        if (n_seen == SEEN) walk(signal_member, leader);
        return;
    }
    /* The group is the next best thing, and where there is none yet, the process. */
    if (sys_call(SYS_kill, -leader, signal, 0, 0, 0, 0) < 0) sys_call(SYS_kill, leader, signal, 0, 0, 0, 0);
}

static void signal_child(long pid, const struct stat_line *line, long parent) {
    if (line->parent == parent) sys_call(SYS_kill, pid, walk_signal, 0, 0, 0, 0);
}

static void signal_descendants(int32_t self, int32_t signal) {
    uint32_t i;
    for (i = 0; i < n_seen; i++)
        if (seen[i].selected && seen[i].pid != self) sys_call(SYS_kill, seen[i].pid, signal, 0, 0, 0, 0);
}

/* All that descends from us, as one look at /proc has it. SIGKILL goes to the children alone: whoever they leave
 * behind is a child then, and its turn comes. So does any signal where they are too many for one look. */
void signal_children(int32_t signal) {
    const int32_t self = (int32_t)sys_call(SYS_getpid, 0, 0, 0, 0, 0, 0);
    if (signal != SIGKILL && !scan_proc(self) && n_seen < SEEN) {
        signal_descendants(self, signal);
        return;
    }
    walk_signal = signal;
    walk(signal_child, self);
}
