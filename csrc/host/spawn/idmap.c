/* The user namespace of the swap, and trees that are mapped by it; see idmap.h.
 *
 * On the disk a file is root's, in the cage it is of PSB_OUTSIDE, whom the cage is outside; what the cage makes is
 * root's on the disk again. All other ids mean themselves. */
#include "idmap.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../../abi.h"
#include "../../sys.h"
#include "child.h"
#include "trees.h"

#define NO_ID 4294967295U
#define SET_OF(capability) (1U << (capability))

/* To take trees, change ids, map them, write beside files that are others', look into the cage and signal it. */
static const unsigned POWERS = SET_OF(CAP_SYS_ADMIN) | SET_OF(CAP_SETUID) | SET_OF(CAP_SETGID) | SET_OF(CAP_SETPCAP) |
                               SET_OF(CAP_DAC_OVERRIDE) | SET_OF(CAP_SYS_PTRACE) | SET_OF(CAP_KILL) | SET_OF(CAP_CHOWN);

int psb_has_root_s_powers(void) {
    struct __user_cap_header_struct head = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct __user_cap_data_struct has[2];
    if (syscall(SYS_capget, &head, has) < 0) return -errno;
    return (has[0].effective & POWERS) == POWERS ? 0 : -EPERM;
}

/* ---- the user namespace ------------------------------------------------------------------------------------- */

/* Its only process is there until it is told, or the other end of the pipe is closed. */
static int wait_for_the_end(void *argument) {
    const int *ends = argument;
    char nothing;
    sys_close(ends[1]);
    while (sys_call(SYS_read, ends[0], &nothing, 1, 0, 0, 0) == -EINTR) {}
    sys_exit(0);
}

static int write_map(int pid, const char *name) {
    char path[48], text[160];
    const int size = snprintf(text, sizeof text, "0 %u 1\n1 1 %u\n%u 0 1\n%u %u %u\n", PSB_OUTSIDE, PSB_OUTSIDE - 1U,
                              PSB_OUTSIDE, PSB_OUTSIDE + 1U, PSB_OUTSIDE + 1U, NO_ID - PSB_OUTSIDE - 1U);
    int fd, result;
    snprintf(path, sizeof path, "/proc/%d/%s", pid, name);
    fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0) return -errno;
    result = write(fd, text, (size_t)size) < 0 ? -errno : 0;
    close(fd);
    return result;
}

static int open_space(int pid) {
    char path[48];
    int fd, result = write_map(pid, "uid_map");
    if (!result) result = write_map(pid, "gid_map");
    if (result) return result;
    snprintf(path, sizeof path, "/proc/%d/ns/user", pid);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

static long start_process(char *stack, int *ends) {
    const struct child_start start = {CLONE_NEWUSER, -1, wait_for_the_end, ends};
    sigset_t before;
    long pid;
    block_signals(&before);
    pid = clone_child(&start, stack, NULL);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return pid;
}

/* While the process lives that its files in /proc are of. */
static int make_space(char *stack) {
    int ends[2], fd;
    long pid;
    if (pipe2(ends, O_CLOEXEC) < 0) return -errno;
    pid = start_process(stack, ends);
    fd = pid < 0 ? (int)pid : open_space((int)pid);
    (void)!write(ends[1], "", 1); /* a copy of the host that was forked meanwhile holds this end as well */
    close(ends[1]);
    while (pid > 0 && waitpid((pid_t)pid, NULL, __WALL) < 0 && errno == EINTR) {}
    close(ends[0]);
    return fd;
}

int psb_make_idmap(void) {
    char *stack = new_child_stack();
    int fd;
    if (!stack) return -errno;
    fd = make_space(stack);
    free_child_stack(stack);
    return fd;
}

/* ---- trees --------------------------------------------------------------------------------------------------- */

int psb_try_idmap(const char *path, int idmap_fd) {
    const long tree = take_tree(path);
    long result;
    if (tree < 0) return (int)tree;
    result = map_tree((int)tree, idmap_fd);
    close((int)tree);
    return (int)result;
}
