/* argv_race MODE TRIES: execs itself TRIES times as "good" while somebody turns the word, or the pointer to it, into "evil"
 * (`argv_race evil`, which the callback forbids). Says how the tries ended, as one line of evidence.
 *
 *   thread  a thread of the process that execs       parent  a thread of its vfork parent
 *   peer    a process that shares its memory (CLONE_VM)   orphan  such a process whose own parent is dead
 *   shared  whoever else has the page mapped (MAP_SHARED)  file    a writer of the file behind a private page
 *   tid     the kernel, for a dying peer (CLONE_CHILD_CLEARTID) */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define PLACE 0x100000000UL /* what a zeroed lower half of a pointer behind it leads to */
#define BEHIND 0x20000UL
#define STACK 65536
#define REFUSED 77
#define EVIL 66

static char *self, *no_environment[] = {NULL};
static char *page; /* the arguments: pointers at its start, the word at 256 */
static unsigned delay;

static char **list(void) {
    return (char **)page;
}

static volatile unsigned *word(void) {
    return (volatile unsigned *)(page + 256);
}

static unsigned spelled(const char *text) {
    unsigned value;
    memcpy(&value, text, sizeof value);
    return value;
}

static void write_list(char *at) {
    strcpy(page + 256, "good");
    strcpy(page + 512, self);
    list()[0] = page + 512;
    list()[1] = at;
    list()[2] = NULL;
}

static void *flip(void *unused) {
    const unsigned good = spelled("good"), evil = spelled("evil");
    for (;;) {
        volatile int pause;
        *word() = evil;
        for (pause = 0; pause < 500; pause++) {}
        *word() = good;
        for (pause = 0; pause < 500; pause++) {}
    }
    return unused;
}

static int flip_as_process(void *unused) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    flip(unused);
    return 0;
}

static int leave_an_orphan(void *stack) {
    clone(flip_as_process, (char *)stack, CLONE_VM | SIGCHLD, NULL);
    _exit(0);
}

static int end_soon(void *unused) {
    volatile unsigned pause;
    for (pause = 0; pause < delay; pause++) {}
    kill(getpid(), SIGKILL);
    return unused != NULL;
}

static void write_file(int fd) {
    for (;;) {
        if (pwrite(fd, "evil", 4, 256) != 4 || pwrite(fd, "good", 4, 256) != 4) _exit(1);
    }
}

static char *new_stack(void) {
    return (char *)mmap(NULL, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) + STACK;
}

static void *map(int flags, int fd) {
    void *at = mmap((void *)(PLACE + BEHIND), 4096, PROT_READ | PROT_WRITE, flags | MAP_FIXED, fd, 0);
    if (at == MAP_FAILED) exit(2);
    return at;
}

static void exec_list(char *path) {
    execve(path, list(), no_environment);
    _exit(REFUSED);
}

static pid_t try_once(const char *mode, char *path, char *stack) {
    pthread_t thread;
    pid_t child;
    if (!strcmp(mode, "tid")) {
        write_list(page + 256);
        strcpy((char *)PLACE, "evil");
        delay = (unsigned)rand() % 600000;
        clone(end_soon, stack, CLONE_VM | CLONE_CHILD_CLEARTID | SIGCHLD, NULL, NULL, NULL, &list()[1]);
    }
    if (strcmp(mode, "thread")) {
        child = vfork();
        if (!child) exec_list(path);
        return child;
    }
    child = fork();
    if (child) return child;
    pthread_create(&thread, NULL, flip, NULL);
    exec_list(path);
    return -1;
}

static void start(const char *mode, char *folder) {
    pthread_t thread;
    char name[256];
    int fd = -1;
    pid_t child = -1;
    if (!strcmp(mode, "shared")) page = map(MAP_SHARED | MAP_ANONYMOUS, -1);
    if (!strcmp(mode, "file")) {
        snprintf(name, sizeof name, "%s/argv_race.page", folder);
        fd = open(name, O_RDWR | O_CREAT | O_TRUNC, 0600);
        if (fd < 0 || ftruncate(fd, 4096)) exit(3);
        page = map(MAP_SHARED, fd);
        write_list(page + 256);
        page = map(MAP_PRIVATE, fd);
        if (!fork()) write_file(fd);
        return;
    }
    if (!page) page = map(MAP_PRIVATE | MAP_ANONYMOUS, -1);
    mmap((void *)PLACE, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    write_list(page + 256);
    if (!strcmp(mode, "parent")) pthread_create(&thread, NULL, flip, NULL);
    if (!strcmp(mode, "peer")) clone(flip_as_process, new_stack(), CLONE_VM | SIGCHLD, NULL);
    if (!strcmp(mode, "orphan")) child = clone(leave_an_orphan, new_stack(), CLONE_VM | SIGCHLD, new_stack());
    if (child > 0) waitpid(child, NULL, 0);
    if (!strcmp(mode, "shared") && !fork()) flip(NULL);
}

int main(int argc, char **argv) {
    unsigned good = 0, evil = 0, refused = 0, killed = 0, other = 0;
    char path[512], *stack = new_stack();
    int tries, status;
    if (argc > 1 && !strcmp(argv[1], "evil")) return EVIL;
    if (argc < 4) return argc > 1 && !strcmp(argv[1], "good") ? 0 : 65;
    setpgid(0, 0); /* all of it ends with kill(0) */
    self = argv[0];
    snprintf(path, sizeof path, "%s", self);
    start(argv[1], argv[3]);
    for (tries = atoi(argv[2]); tries > 0; tries--) {
        const pid_t child = try_once(argv[1], path, stack);
        if (child < 0 || waitpid(child, &status, 0) != child) return 4;
        if (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) killed++;
        else if (!WIFEXITED(status)) other++;
        else if (!WEXITSTATUS(status)) good++;
        else if (WEXITSTATUS(status) == EVIL) evil++;
        else if (WEXITSTATUS(status) == REFUSED) refused++;
        else other++;
        while (!strcmp(argv[1], "tid") && waitpid(-1, NULL, 0) > 0) {}
    }
    printf("{\"try\": \"%s\", \"errno\": null, \"value\": {\"good\": %u, \"evil\": %u, \"refused\": %u, \"killed\": %u, "
           "\"other\": %u}}\n", argv[1], good, evil, refused, killed, other);
    fflush(stdout);
    kill(0, SIGKILL);
    return 0;
}
