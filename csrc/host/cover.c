/* Closing a path of a cage that runs. cage-init has no capability left, and needs none: a short-lived child of the host,
 * which owns the cage's user namespace, enters it and mounts there. */
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../setup/setup.h"
#include "spawn.h"

#define STACK_SIZE (64 * 1024)

struct cover {
    int pidfd;
    struct psb_mount mount;
    struct psb_error error;
};

static int cover_inside(void *argument) {
    struct cover *cover = argument;
    if (setns(cover->pidfd, CLONE_NEWUSER | CLONE_NEWNS) < 0)
        cover->error.number = errno;
    else if (carry_out_mount(&cover->mount, "/", &cover->error) && !cover->error.number)
        cover->error.number = EIO;
    sys_exit(0);
}

/* Like the child of a spawn: in the host's memory, on a stack of its own, with every signal blocked. */
static int run(struct cover *cover) {
    char *stack = mmap(NULL, STACK_SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
    sigset_t all, before;
    int pid, number;
    if (stack == MAP_FAILED) return -errno;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pid = clone(cover_inside, stack + STACK_SIZE, CLONE_VM | CLONE_VFORK, cover);
    number = errno;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (pid >= 0)
        while (waitpid(pid, NULL, __WALL) < 0 && errno == EINTR) {}
    munmap(stack, STACK_SIZE);
    return pid < 0 ? -number : -cover->error.number;
}

int psb_cover(int init_pidfd, const char *path, int directory) {
    struct cover cover = {.pidfd = init_pidfd,
                          .mount = {.kind = directory ? PSB_MOUNT_DENY_DIR : PSB_MOUNT_DENY_FILE,
                                    .flags = PSB_INSIDE_BIND,
                                    .target = path,
                                    .source = "",
                                    .data = ""}};
    return run(&cover);
}

int64_t psb_file_system(int fd) {
    struct statfs found;
    return fstatfs(fd, &found) < 0 ? -errno : (int64_t)found.f_type;
}
