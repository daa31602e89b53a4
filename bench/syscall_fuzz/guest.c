/* Random system calls, made by a program that wants nothing: what bench.syscall_fuzz runs in each cage.
 *
 *     guest SEED SECONDS PATH...
 *
 * Most calls are drawn from the grammar of calls.c; the others from all numbers, with descriptors, process numbers,
 * flags, lengths, and pointers to noise, to the given paths, and to nowhere; a few from another table of calls. A child
 * makes some calls and is then killed: most do not live that long. What is drawn depends on the seed alone. */
#define _GNU_SOURCE
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "calls.h"

#define LAST_CALL 470
#define CALLS_OF_A_CHILD 300
#define PATIENCE_MS 300

static uint64_t state;
static char noise[8192];
static char **paths;
static int n_paths;

uint64_t draw(void) {
    state ^= state << 13;
    state ^= state >> 7;
    return state ^= state << 17;
}

const char *draw_path(void) {
    return paths[draw() % (uint64_t)n_paths];
}

static long pointer(void) {
    switch (draw() % 5) {
    case 0: return (long)draw_path();
    case 1: return (long)(noise + draw() % sizeof noise);
    case 2: return (long)(draw() % 4 ? 0 : draw());
    default: return (long)noise;
    }
}

static long argument(void) {
    static const long odd[] = {0, 1, 2, -1, -100, 0x7fffffff, 4096, 1L << 32 | 1, 0x5412, 1024, 0x10000000, 0x2000000};
    switch (draw() % 6) {
    case 0: return (long)(draw() % 12);
    case 1: return odd[draw() % (sizeof odd / sizeof odd[0])];
    case 2: return 1L << draw() % 40;
    case 3: return draw() % 3 ? getpid() : getppid();
    default: return pointer();
    }
}

static void make_any_call(void) {
    const long number = (long)(draw() % LAST_CALL);
    size_t at;
    if (number == SYS_exit || number == SYS_exit_group || number == SYS_rt_sigreturn) return;
    for (at = 0; at < 64; at += 8) *(uint64_t *)(void *)(noise + at) = draw() % 3 ? (uint64_t)argument() : 0;
    syscall(number, argument(), argument(), argument(), argument(), argument(), argument());
}

static void make_calls(void) {
    int i;
    for (i = 0; i < CALLS_OF_A_CHILD; i++) switch (draw() % 16) {
        case 0: make_a_call_of_another_table(); break;
        case 1:
        case 2:
        case 3:
        case 4: make_any_call(); break;
        default: make_a_call_of_the_grammar();
        }
    _exit(0);
}

/* The child may stop, block or fork: it is waited for in small steps, and then ended. */
static void end(pid_t child) {
    const struct timespec step = {0, 5000000};
    int waited;
    for (waited = 0; waited < PATIENCE_MS; waited += 5) {
        if (waitpid(child, NULL, WNOHANG) != 0) return;
        nanosleep(&step, NULL);
    }
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
}

int main(int argc, char **argv) {
    const time_t until = argc > 3 ? time(NULL) + atoi(argv[2]) : 0;
    unsigned long rounds = 0;
    if (argc < 4) return 2;
    state = strtoull(argv[1], NULL, 10) * 2654435761u + 88172645463325252u;
    paths = argv + 3;
    n_paths = argc - 3;
    for (; time(NULL) < until; rounds++) {
        const uint64_t seed = draw();
        const pid_t child = fork();
        if (child == 0) {
            state = seed | 1;
            make_calls();
        }
        if (child > 0) end(child);
    }
    printf("%lu\n", rounds);
    return 0;
}
