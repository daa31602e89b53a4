/* Says what holds the process that runs it, one fact a line: two cages of one policy must say the same. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

static void said(const char *what, long result) {
    printf("%s %s\n", what, result < 0 ? strerrorname_np(errno) : "yes");
}

static void lines_of(const char *path, const char *const *wanted) {
    char line[4096];
    FILE *file = fopen(path, "r");
    if (!file) {
        printf("%s %s\n", path, strerrorname_np(errno));
        return;
    }
    while (fgets(line, sizeof line, file))
        for (const char *const *prefix = wanted; *prefix; prefix++)
            if (!strncmp(line, *prefix, strlen(*prefix))) fputs(line, stdout);
    fclose(file);
}

static void mounts(void) {
    char line[4096];
    FILE *file = fopen("/proc/self/mountinfo", "r");
    while (file && fgets(line, sizeof line, file)) {
        const char *rest = line; /* "id parent device root point options ...": the first three are new each time */
        for (int field = 0; field < 3; field++) rest = strchr(rest, ' ') + 1;
        printf("mount %s", rest);
    }
    if (!file) printf("mountinfo %s\n", strerrorname_np(errno));
}

static void open_one(const char *path, int flags) {
    int fd = open(path, flags | O_CLOEXEC, 0600);
    printf("open %s %x ", path, (unsigned)flags);
    said("", fd);
    if (fd >= 0) close(fd);
}

static void descriptors(void) {
    for (int fd = 0; fd < 256; fd++)
        if (fcntl(fd, F_GETFD) >= 0) printf("fd %d\n", fd);
}

static void limits(void) {
    for (int resource = 0; resource < RLIM_NLIMITS; resource++) {
        struct rlimit limit;
        if (!getrlimit(resource, &limit)) printf("limit %d %lx %lx\n", resource, limit.rlim_cur, limit.rlim_max);
    }
}

static void names(char **argv) { /* the host's namespaces: "pid:[4026531836]" ... */
    for (; *argv; argv++) {
        char path[64] = "/proc/self/ns/", found[64] = "";
        size_t length = strcspn(*argv, ":");
        strncat(path, *argv, length);
        printf("%s ", path);
        puts(readlink(path, found, sizeof found - 1) < 0 ? strerrorname_np(errno)
             : strcmp(found, *argv)                      ? "own"
                                                         : "the host's");
    }
}

static void watches(void) {
    int count = 0;
    while (count < 40 && inotify_init() >= 0) count++;
    printf("inotify %s\n", count > 16 ? "many" : "few");
}

int main(int argc, char **argv) {
    static const char *const status[] = {"Umask", "Uid", "Gid", "Groups", "SigBlk", "SigIgn", "Cap",
                                         "NoNewPrivs", "Seccomp", "Speculation", NULL};
    const char *outside = argc > 1 ? argv[1] : "/nowhere", *inside = argc > 2 ? argv[2] : "/nowhere";
    char path[4096], host[65] = "";
    int number = 0;
    descriptors();
    lines_of("/proc/self/status", status);
    mounts();
    limits();
    if (argc > 3) names(argv + 3);
    open_one(outside, O_RDONLY);
    open_one("/", O_RDONLY | O_DIRECTORY);
    open_one("/usr/psb-new", O_WRONLY | O_CREAT);
    open_one("/psb-new", O_WRONLY | O_CREAT);
    open_one("/proc/sys/kernel/hostname", O_WRONLY);
    open_one("/proc/self/oom_score_adj", O_WRONLY);
    open_one("/proc/1/environ", O_RDONLY);
    open_one("/proc/1/mem", O_RDWR);
    open_one("/dev/tty", O_RDWR);
    snprintf(path, sizeof path, "%s/file", inside);
    open_one(path, O_WRONLY | O_CREAT);
    snprintf(path, sizeof path, "%s/fifo", inside);
    unlink(path); /* of one that was ended here */
    said("fifo", mkfifo(path, 0600));
    unlink(path);
    said("device", mknod(path, S_IFCHR | 0600, 0x103));
    said("ioctl", ioctl(open("/dev/null", O_RDONLY), FIONREAD, &number));
    said("unshare", unshare(CLONE_NEWUSER));
    said("mount", mount("none", "/tmp", "tmpfs", 0, NULL));
    said("chroot", chroot("/"));
    said("keyctl", syscall(SYS_keyctl, 0, -3, 0));
    said("ptrace", syscall(SYS_ptrace, 0, 0, 0, 0));
    said("dumpable", prctl(PR_GET_DUMPABLE));
    said("socket", socket(AF_INET, SOCK_STREAM, 0));
    said("packet", socket(AF_PACKET, SOCK_RAW, 0));
    said("leader", getsid(0) == getpid() ? 0 : (errno = ESRCH, -1));
    said("parent", getppid() == 1 ? 0 : (errno = ESRCH, -1));
    gethostname(host, sizeof host - 1);
    printf("host %.3s\n", host);
    printf("loopback %u\n", if_nametoindex("lo"));
    watches();
    return 0;
}
