/* burst KIND PROCESSES MIB COUNTS [apart]: processes that start at once each take MIB of one kind of memory, as fast as
 * they can, and keep it. Each tells after every piece, in its own slot of the file COUNTS, how much it has taken so
 * far: the host reads there what was in use at the end. "freed" takes it, gives it back and does so again. "apart":
 * each in a session of its own, which sched(7) gives as much of a processor as all others of the machine have together.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define MOST 256
#define PIECE (1u << 20)

static volatile uint64_t *taken; /* slot 0: how many are ready; then one for each process */

static int open_file(const char *kind, int i) {
    char path[64];
    if (!strcmp(kind, "memfd")) return -2; /* one for all, made before */
    snprintf(path, sizeof path, "%s/burst.%d", !strcmp(kind, "shm") ? "/dev/shm" : "/tmp", i);
    return open(path, O_RDWR | O_CREAT, 0600);
}

static void write_all(int fd, int i, uint64_t from, uint64_t bytes) {
    static char piece[PIECE];
    uint64_t at;
    memset(piece, 1, sizeof piece);
    for (at = 0; at < bytes; at += PIECE) {
        if (pwrite(fd, piece, PIECE, (off_t)(from + at)) != PIECE) return;
        taken[i] = at + PIECE;
    }
}

static void touch_all(const char *kind, int i, uint64_t bytes) {
    const int shared = !strcmp(kind, "shared"), freed = !strcmp(kind, "freed");
    do {
        uint64_t at;
        char *area =
            mmap(NULL, bytes, PROT_READ | PROT_WRITE, (shared ? MAP_SHARED : MAP_PRIVATE) | MAP_ANONYMOUS, -1, 0);
        if (area == MAP_FAILED) {
            taken[i] = taken[i] ? taken[i] : 1; /* refused: nothing more than what there is */
            return;
        }
        if (!strcmp(kind, "huge")) madvise(area, bytes, MADV_HUGEPAGE);
        for (at = 0; at < bytes; at += 4096) {
            area[at] = 1;
            if (at % PIECE == 0 && taken[i] < at) taken[i] = at;
        }
        if (!freed) return;
        munmap(area, bytes);
        usleep(20000);
    } while (1);
}

static void fill(const char *kind, int i, uint64_t bytes, int memfd, int processes) {
    const int files = !strcmp(kind, "memfd") || !strcmp(kind, "tmpfs") || !strcmp(kind, "shm");
    const int fd = !files ? -1 : memfd >= 0 ? memfd : open_file(kind, i);
    __sync_fetch_and_add(&taken[0], 1);
    while (taken[0] < (uint64_t)processes) sched_yield();
    if (files)
        write_all(fd, i, memfd >= 0 ? (uint64_t)(i - 1) * bytes : 0, bytes);
    else
        touch_all(kind, i, bytes);
    pause();
}

int main(int argc, char **argv) {
    const int processes = argc >= 5 ? atoi(argv[2]) : 0;
    const int counts = argc >= 5 ? open(argv[4], O_RDWR) : -1;
    const int memfd = argc >= 5 && !strcmp(argv[1], "memfd") ? memfd_create("burst", 0) : -1;
    int i;
    if (counts < 0 || processes < 1 || processes > MOST) return 2;
    taken = mmap(NULL, (MOST + 1) * sizeof *taken, PROT_READ | PROT_WRITE, MAP_SHARED, counts, 0);
    if (taken == MAP_FAILED) return 3;
    for (i = 1; i < processes; i++)
        if (!fork()) break;
    if (argc > 5 && i < processes) setsid();
    fill(argv[1], i, (uint64_t)atoi(argv[3]) * PIECE, memfd, processes);
    return 0;
}
