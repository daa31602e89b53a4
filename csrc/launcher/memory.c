/* The first look may come to more than pysandbox/live/tree.py does by looking closer, and never to less; the second to
 * less, and never to more. */
#include "memory.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include "host.h"

#define INODE 1024u              /* bytes of the kernel's for a file of a tmpfs: its inode, its name */
#define USUAL_DESCRIPTORS 4096u  /* of all processes */
#define DESCRIPTOR (5u << 10)    /* half a pipe of two pages, and what it takes to keep it */
#define USUAL_SOCKETS 256u       /* of unix domain */
#define SOCKET 212992u           /* net.core.wmem_default: what a unix socket's messages may take */
#define USUAL_INET 8u            /* sockets that are too few to matter */
#define TABLE_SHARE 512u         /* of an address space, for its page tables of the lowest level */
#define UNSEEN 16u               /* the part of the limit that may be missed */
#define LARGEST_TABLE (1u << 24) /* bytes of a table of sockets: some 100,000 */
#define SMALL 4096

struct sum {
    const struct memory *memory;
    int (*add)(struct sum *, const char *);
    const char *process;
    uint64_t page, resident, spaces, descriptors, tables, swapped;
    uint64_t anonymous, shared; /* a page of n processes counted as an n-th */
};

/* ---- reading below the cage's /proc ------------------------------------------------------------------------------ */

/* The beginning of a file, with a NUL; its size, 0 for one that is gone, -1 for any other reason. */
static ssize_t read_start(int proc, const char *path, char *text, size_t room) {
    const int fd = openat(proc, path, O_RDONLY | O_CLOEXEC);
    size_t size = 0;
    ssize_t got = 1;
    int gone;
    *text = 0;
    if (fd < 0) return errno == ENOENT || errno == ESRCH ? 0 : -1;
    while (got > 0 && size < room - 1) {
        got = read(fd, text + size, room - 1 - size);
        if (got < 0 && errno == EINTR)
            got = 1;
        else if (got > 0)
            size += (size_t)got;
    }
    gone = got < 0 && errno == ESRCH;
    close(fd);
    text[size] = 0;
    return got >= 0 ? (ssize_t)size : gone ? 0 : -1;
}

/* All of it: -1 also where it is longer. */
static ssize_t read_below(int proc, const char *path, char *text, size_t room) {
    const ssize_t size = read_start(proc, path, text, room);
    return size < (ssize_t)room - 1 ? size : -1;
}

/* What a line `Name:   123 kB` says, in bytes; 0 where there is none. */
static uint64_t bytes_of(const char *text, const char *name) {
    unsigned long long kilobytes = 0;
    const char *at = strstr(text, name);
    return at && sscanf(at + strlen(name), " %llu", &kilobytes) == 1 ? kilobytes * 1024 : 0;
}

/* Calls `act` with each number in a directory, until one returns another than 0, which is returned; -1 when it cannot
 * be read. One that is gone has none. */
static int each_number(int proc, const char *path, int (*act)(struct sum *, const char *), struct sum *sum) {
    const int fd = openat(proc, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *directory = fd < 0 ? NULL : fdopendir(fd);
    const struct dirent *entry;
    int result = 0;
    if (!directory) {
        const int gone = fd < 0 && (errno == ENOENT || errno == ESRCH);
        if (fd >= 0) close(fd);
        return gone ? 0 : -1;
    }
    while (!result && (errno = 0, entry = readdir(directory)))
        if (isdigit((unsigned char)*entry->d_name)) result = act(sum, entry->d_name);
    if (!result && errno && errno != ENOENT && errno != ESRCH) result = -1;
    closedir(directory);
    return result;
}

/* ---- what each process has --------------------------------------------------------------------------------------- */

/* Each of these answers 1 when the memory of a process shows at `place`, 0 when it does not, -1 when that cannot be
 * told. */
static int add_pages(struct sum *sum, const char *place) {
    char path[80], text[SMALL];
    unsigned long long space = 0, resident = 0;
    snprintf(path, sizeof path, "%s/statm", place);
    if (read_below(sum->memory->proc, path, text, sizeof text) < 0) return -1;
    if (sscanf(text, "%llu %llu", &space, &resident) != 2 || !resident) return 0;
    sum->resident += resident * sum->page;
    sum->spaces += space * sum->page;
    return 1;
}

/* Page tables are in no count of pages, and a page that is only read takes none of its own. */
static int add_tables(struct sum *sum, const char *place) {
    char path[80], text[SMALL];
    snprintf(path, sizeof path, "%s/status", place);
    if (read_below(sum->memory->proc, path, text, sizeof text) < 0) return -1;
    if (!strstr(text, "\nVmPTE:")) return 0;
    sum->tables += bytes_of(text, "\nVmPTE:");
    return 1;
}

/* What the kernel has moved to swap is in no count of pages, and a process may ask for that (MADV_PAGEOUT). */
static int add_swapped(struct sum *sum, const char *place) {
    char path[80], text[SMALL];
    snprintf(path, sizeof path, "%s/status", place);
    if (read_below(sum->memory->proc, path, text, sizeof text) < 0) return -1;
    if (!strstr(text, "\nVmSwap:")) return 0;
    sum->swapped += bytes_of(text, "\nVmSwap:");
    return 1;
}

/* The closer look; of one that may not be looked into, what it shares counts in full. */
static int add_weight(struct sum *sum, const char *place) {
    char path[80], text[SMALL];
    snprintf(path, sizeof path, "%s/smaps_rollup", place);
    if (read_below(sum->memory->proc, path, text, sizeof text) > 0) {
        sum->anonymous += bytes_of(text, "\nPss_Anon:") + bytes_of(text, "\nSwapPss:");
        sum->anonymous += bytes_of(text, "\nPrivate_Hugetlb:") + bytes_of(text, "\nShared_Hugetlb:");
        sum->shared += bytes_of(text, "\nPss_Shmem:");
        return 1;
    }
    snprintf(path, sizeof path, "%s/status", place);
    if (read_below(sum->memory->proc, path, text, sizeof text) < 0) return -1;
    if (!strstr(text, "\nRssAnon:")) return 0;
    sum->anonymous += bytes_of(text, "\nRssAnon:") + bytes_of(text, "\nVmSwap:");
    sum->shared += bytes_of(text, "\nRssShmem:");
    return 1;
}

static int add_at_thread(struct sum *sum, const char *thread) {
    char place[64];
    snprintf(place, sizeof place, "%.20s/task/%.20s", sum->process, thread);
    return sum->add(sum, place);
}

/* A process whose first thread has ended is empty-handed there, and its others are not. */
static int add_process(struct sum *sum, const char *pid) {
    char path[64];
    int shown = sum->add(sum, pid);
    if (!shown) {
        sum->process = pid;
        snprintf(path, sizeof path, "%.20s/task", pid);
        shown = each_number(sum->memory->proc, path, add_at_thread, sum);
    }
    return shown < 0 ? -1 : 0;
}

static int add_descriptors(struct sum *sum, const char *pid) {
    char path[64];
    struct stat found;
    snprintf(path, sizeof path, "%.20s/fd", pid);
    if (fstatat(sum->memory->proc, path, &found, 0)) return errno == ENOENT || errno == ESRCH ? 0 : -1;
    sum->descriptors += (uint64_t)found.st_size; /* 6.2 */
    return 0;
}

static int add_pages_and_descriptors(struct sum *sum, const char *pid) {
    return add_process(sum, pid) || add_descriptors(sum, pid) ? -1 : 0;
}

/* ---- what they have together ------------------------------------------------------------------------------------- */

static uint64_t in_files(const struct memory *memory) {
    uint64_t total = 0;
    int i;
    for (i = 0; i < memory->n_files; i++) {
        struct statvfs seen;
        if (fstatvfs(memory->files[i], &seen)) return UNKNOWN;
        total += (uint64_t)(seen.f_blocks - seen.f_bfree) * seen.f_frsize;
        total += (uint64_t)(seen.f_files - seen.f_ffree) * INODE;
    }
    return total;
}

/* What was sent and received, and lies in sockets: column 5 of such a table. */
static uint64_t queued_in(const struct memory *memory, const char *path) {
    char *text = malloc(LARGEST_TABLE), *line, *next;
    uint64_t total = 0;
    if (!text || read_start(memory->proc, path, text, LARGEST_TABLE) < 0) {
        free(text);
        return UNKNOWN;
    }
    for (line = text; line && *line; line = next) {
        unsigned long long sent, received;
        next = strchr(line, '\n');
        if (next) *next++ = 0;
        if (sscanf(line, "%*s %*s %*s %*s %llx:%llx", &sent, &received) == 2) total += sent + received;
    }
    free(text);
    return total;
}

static uint64_t in_queues(const struct memory *memory) {
    static const char *const tables[] = {"1/net/tcp", "1/net/tcp6", "1/net/udp", "1/net/udp6"};
    uint64_t total = 0;
    size_t i;
    for (i = 0; i < sizeof tables / sizeof *tables; i++) {
        const uint64_t some = queued_in(memory, tables[i]);
        if (some == UNKNOWN) return UNKNOWN;
        total += some;
    }
    return total;
}

/* What the kernel may hold for sockets, the usual number of each left out. */
static uint64_t in_sockets(const struct memory *memory) {
    char text[SMALL * 4], *line, *next;
    uint64_t local = 0, inet = 0, held, queued = 0;
    if (!memory->own_net) return 0;
    if (read_below(memory->proc, "1/net/protocols", text, sizeof text) < 0) return UNKNOWN;
    for (line = text; line && *line; line = next) {
        unsigned long long count;
        char name[24];
        next = strchr(line, '\n');
        if (next) *next++ = 0;
        if (sscanf(line, "%23s %*s %llu", name, &count) != 2) continue;
        if (!strncmp(name, "UNIX", 4)) local += count;
        if (!strcmp(name, "TCP") || !strcmp(name, "TCPv6") || !strcmp(name, "UDP") || !strcmp(name, "UDPv6"))
            inet += count;
    }
    held = local > USUAL_SOCKETS ? (local - USUAL_SOCKETS) * SOCKET : 0;
    if (inet > USUAL_INET) queued = in_queues(memory);
    return queued == UNKNOWN ? UNKNOWN : held + queued;
}

/* What is there besides the pages of processes, which are added to `sum` meanwhile. */
static uint64_t besides_pages(const struct memory *memory, struct sum *sum) {
    const uint64_t files = in_files(memory), sockets = in_sockets(memory);
    uint64_t held = 0;
    if (files == UNKNOWN || sockets == UNKNOWN) return UNKNOWN;
    sum->add = add_pages;
    if (each_number(memory->proc, ".", add_pages_and_descriptors, sum)) return UNKNOWN;
    sum->add = add_tables;
    if (sum->spaces / TABLE_SHARE > memory->limit / UNSEEN && each_number(memory->proc, ".", add_process, sum))
        return UNKNOWN;
    if (sum->descriptors > USUAL_DESCRIPTORS) held = (sum->descriptors - USUAL_DESCRIPTORS) * DESCRIPTOR;
    return sum->tables + files + sockets + held;
}

static int has_swap(void) {
    struct sysinfo of;
    return sysinfo(&of) < 0 || of.totalswap;
}

static struct sum nothing_yet(const struct memory *memory) {
    return (struct sum){.memory = memory, .page = (uint64_t)sysconf(_SC_PAGESIZE)};
}

uint64_t add_up_memory(const struct memory *memory) {
    struct sum sum = nothing_yet(memory);
    const uint64_t others = besides_pages(memory, &sum);
    sum.add = add_swapped;
    if (others == UNKNOWN || (has_swap() && each_number(memory->proc, ".", add_process, &sum))) return UNKNOWN;
    return sum.resident + sum.swapped + others;
}

/* Shared pages may be those of the memory file systems: which is more is surely there. */
uint64_t weigh_memory(const struct memory *memory) {
    struct sum sum = nothing_yet(memory);
    const uint64_t others = besides_pages(memory, &sum);
    sum.add = add_weight;
    if (others == UNKNOWN || each_number(memory->proc, ".", add_process, &sum)) return UNKNOWN;
    return sum.anonymous + (sum.shared > others ? sum.shared : others);
}

/* ---- the cage's places ------------------------------------------------------------------------------------------- */

static int open_below(int root, const char *path, uint64_t flags) {
    return psb_open_inside(root, path, flags | O_DIRECTORY, 0, RESOLVE_IN_ROOT | RESOLVE_NO_SYMLINKS);
}

int open_memory(struct memory *memory, const struct kept *kept, int init_pid) {
    const uint32_t *row = table(kept, PSB_KEPT_WATCHED);
    char path[40];
    size_t i;
    int root;
    memory->limit = kept->head->memory;
    memory->own_net = (kept->head->flags & PSB_KEPT_OWN_NET) != 0;
    memory->proc = -1;
    if (!memory->limit) return 0;
    /* Whoever /proc shows is signalled, and that must be the cage alone. */
    if (!(((const struct psb_plan *)table(kept, PSB_KEPT_PLAN))->namespaces & CLONE_NEWPID)) return -1;
    snprintf(path, sizeof path, "/proc/%d/root", init_pid);
    root = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (root < 0) return -1;
    memory->proc = open_below(root, "/proc", O_RDONLY);
    for (i = 0; memory->proc >= 0 && i < count_of(kept, PSB_KEPT_WATCHED); i++) {
        const int fd = open_below(root, text_at(kept, row[i]), O_PATH);
        if (fd < 0) break;
        memory->files[memory->n_files++] = fd;
    }
    close(root);
    return memory->proc >= 0 && i == count_of(kept, PSB_KEPT_WATCHED) ? 0 : -1;
}

void close_memory(struct memory *memory) {
    while (memory->n_files) close(memory->files[--memory->n_files]);
    if (memory->proc >= 0) close(memory->proc);
    memory->proc = -1;
}
