/* A process that shares memory with the caller of an execve (a thread, a vfork parent, one that has the same file or
 * shared memory mapped) can change the arguments until the kernel has copied them, and before that there is no moment
 * at which they cannot change. So they are judged afterwards: at PTRACE_EVENT_EXEC the copy lies in a new address space
 * that no other process shares, and not one instruction of the new program has run.
 *
 * The tracer polls. To sleep in waitid would be to rely on a report that any waitpid(-1) of the host may take away;
 * that the tracee has stopped stays true. */
#include "image.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/kcmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "target.h"

#define NAME_ROOM 8192   /* PATH_MAX, and /dev/fd/N before it */
#define AUXV_ROOM 128    /* entries; Linux writes some 25 */
#define FIRST_NAP 60000L /* ns; an execve takes some 200 us */
#define LONGEST_NAP 2000000L

enum progress {
    GOES_ON,
    STOPPED,
    GONE
};

struct stop {
    int pid;
    int event;  /* PTRACE_EVENT_*, 0: a signal is about to be delivered */
    int signal; /* ... this one */
};

/* ptrace(2) knows numbers alone. Whoever has the caller's by now, if it has died since thread_group has looked, is let
 * go at once: nothing has been read of it (answers_exec.c). */
int watch_exec(struct watch *watch, const struct target *caller) {
    const int tid = caller->tid;
    watch->tid = tid;
    watch->group = thread_group(caller);
    if (watch->group <= 0) return -ESRCH;
    if (ptrace(PTRACE_SEIZE, tid, NULL, PTRACE_O_TRACEEXEC | PTRACE_O_EXITKILL) < 0)
        return errno == ESRCH ? -ESRCH : -EACCES;
    /* It waits on; but if its call fails it stops on its way back. */
    ptrace(PTRACE_INTERRUPT, tid, NULL, NULL);
    return 0;
}

static int has_stopped(int pid, struct stop *stop) {
    siginfo_t info;
    if (ptrace(PTRACE_GETSIGINFO, pid, NULL, &info) < 0) return 0;
    stop->pid = pid;
    stop->event = info.si_code > 0xff ? info.si_code >> 8 : 0;
    stop->signal = stop->event ? 0 : info.si_signo;
    return 1;
}

static int has_ended(const siginfo_t *report) {
    return report->si_code == CLD_EXITED || report->si_code == CLD_KILLED || report->si_code == CLD_DUMPED;
}

static enum progress look_at(int pid, struct stop *stop) {
    siginfo_t report = {0};
    if (has_stopped(pid, stop)) return STOPPED;
    /* Taking the report of an end lets its own parent know, and a thread that waits for its siblings (de_thread). That
     * of the execve of another thread than the leader has to be taken before ptrace finds it by its new number. */
    if (waitid(P_PID, (id_t)pid, &report, WEXITED | WSTOPPED | WNOHANG | __WALL | __WNOTHREAD) < 0)
        return errno == ECHILD ? GONE : GOES_ON; /* a tracee that was left stopped would wait for ever */
    if (!report.si_pid) return GOES_ON;
    if (has_ended(&report)) return GONE;
    return has_stopped(pid, stop) ? STOPPED : GOES_ON;
}

/* A thread that execs takes the number of its group's leader: it is looked for under its own first. */
static enum progress poll_tracee(const struct watch *watch, struct stop *stop) {
    const enum progress progress = look_at(watch->tid, stop);
    return progress == GONE && watch->group != watch->tid ? look_at(watch->group, stop) : progress;
}

static enum progress await_stop(const struct watch *watch, struct stop *stop) {
    struct timespec nap = {0, FIRST_NAP};
    enum progress progress;
    prctl(PR_SET_TIMERSLACK, 1UL, 0, 0, 0);
    while ((progress = poll_tracee(watch, stop)) == GOES_ON) {
        nanosleep(&nap, NULL);
        if (nap.tv_nsec < LONGEST_NAP) nap.tv_nsec += nap.tv_nsec / 8;
    }
    prctl(PR_SET_TIMERSLACK, 0UL, 0, 0, 0); /* the thread's default */
    return progress;
}

/* What a file of the process says, to its end: the size, at most `room`; 0 when it cannot be read. */
static size_t read_file(const struct target *tracee, const char *name, void *to, size_t room) {
    const int fd = open_of(tracee, name, O_RDONLY);
    size_t have = 0;
    ssize_t got;
    if (fd < 0) return 0;
    while (have < room && (got = read(fd, (char *)to + have, room - have)) > 0) have += (size_t)got;
    close(fd);
    return have;
}

static int has_name(const struct target *tracee, const char *name) {
    char found[NAME_ROOM];
    Elf64_auxv_t entries[AUXV_ROOM];
    const size_t count = read_file(tracee, "auxv", entries, sizeof entries) / sizeof entries[0];
    size_t i;
    for (i = 0; i < count && entries[i].a_type != AT_EXECFN; i++) {}
    return i < count && read_text(tracee, entries[i].a_un.a_val, found, sizeof found) >= 0 && !strcmp(found, name);
}

static int runs_file(const struct target *tracee, uint64_t device, uint64_t inode) {
    const int fd = open_of(tracee, "exe", O_PATH);
    struct stat found;
    const int same = fd >= 0 && !fstat(fd, &found) && found.st_dev == device && found.st_ino == inode;
    if (fd >= 0) close(fd);
    return same;
}

static int has_arguments(const struct target *tracee, const char *expected, size_t size) {
    char *found = malloc(size + 1);
    const int same = found && read_file(tracee, "cmdline", found, size + 1) == size && !memcmp(found, expected, size);
    free(found);
    return same;
}

static int is_image(int pid, const struct psb_image *image) {
    const struct target tracee = {.tid = pid, .listener = -1, .held = 1};
    if (!has_name(&tracee, image->name)) return 0;
    if (has_arguments(&tracee, image->arguments, image->arguments_size) &&
        runs_file(&tracee, image->program_device, image->program_inode))
        return 1;
    return image->script && runs_file(&tracee, image->device, image->inode) &&
           has_arguments(&tracee, image->script, image->script_size);
}

/* Whether the process has become another image than the expected one. One that was killed while it was read has not. */
static int is_another(struct stop *stop, const struct psb_image *image) {
    return image && stop->event == PTRACE_EVENT_EXEC && !is_image(stop->pid, image) && has_stopped(stop->pid, stop);
}

int follow_exec(const struct watch *watch, const struct psb_image *image) {
    struct stop stop;
    while (await_stop(watch, &stop) == STOPPED) {
        if (is_another(&stop, image)) return -EPERM;
        if (!ptrace(PTRACE_DETACH, stop.pid, NULL, (long)stop.signal)) break; /* else it was killed meanwhile */
    }
    return 0;
}

void end_watch(const struct watch *watch) {
    follow_exec(watch, NULL);
}

/* A tracee keeps its number until it is waited for, and its end is ours to take note of. */
void end_image(const struct watch *watch) {
    struct stop stop;
    while (await_stop(watch, &stop) == STOPPED) kill(stop.pid, SIGKILL);
}

int is_init(int tid, int init_pid) {
    return syscall(SYS_kcmp, tid, init_pid, KCMP_VM, 0, 0) == 0;
}
