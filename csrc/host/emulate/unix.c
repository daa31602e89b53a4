/* Which socket a caged process means by a unix address, when the call is done from outside of its root (unix(7)). */
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>

#include "emulate.h"
#include "../notify/eintr_timer.h"

#ifndef RESOLVE_IN_ROOT
#define RESOLVE_IN_ROOT 16
#endif
#ifndef RESOLVE_NO_MAGICLINKS
#define RESOLVE_NO_MAGICLINKS 2
#endif

#define MOST_TRIES 64 /* EAGAIN: something was renamed or mounted while a ".." was followed (openat2(2)) */

/* The path as the caller's root has it: its working directory in front of a relative one. */
static int absolute(const struct target *caller, const char *path, char *to, size_t room) {
    char cwd[3072];
    int64_t size;
    int written;
    if (path[0] == '/') {
        written = snprintf(to, room, "%s", path);
    } else {
        size = link_of(caller, "cwd", cwd, sizeof cwd);
        if (size < 0) return (int)size;
        written = snprintf(to, room, "%s/%s", cwd, path);
    }
    return written < 0 || (size_t)written >= room ? -ENAMETOOLONG : 0;
}

static int open_in_root(const struct target *caller, const char *path) {
    struct open_how how = {.flags = O_PATH | O_CLOEXEC, .resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS};
    const int root = open_of(caller, "root", O_PATH | O_DIRECTORY);
    int fd, tries = 0;
    if (root < 0) return root;
    arm_eintr_timer(); /* a file system may not answer */
    do {
        fd = (int)syscall(SYS_openat2, root, path, &how, sizeof how);
        if (fd < 0) fd = -errno;
    } while (fd == -EAGAIN && tries++ < MOST_TRIES);
    end_interrupting();
    close_own(root);
    return fd;
}

/* A path is looked up as the user that this is done as (effective_caps.h): as root only for a caller that is root, too.
 */
static int is_same_user(const struct target *caller) {
    struct stat about;
    int fd, same;
    if (geteuid()) return 1;
    fd = open_of(caller, "", O_PATH | O_DIRECTORY);
    same = fd >= 0 && !fstat(fd, &about) && about.st_uid == geteuid();
    if (fd >= 0) close_own(fd);
    return same;
}

/* Whether a socket file is granted. Without a mount namespace a cage can name any socket of the host's. A grant is a
 * file, held open for as long as the cage lives (supervise/sockets.py), so that its inode number is not reused.
 * Whatever path leads to it, and however links change meanwhile: the file held here is the one that is checked and
 * connected. */
static int is_granted(int held, const struct psb_rules *rules) {
    struct stat file;
    uint32_t i;
    if (fstat(held, &file) < 0 || !S_ISSOCK(file.st_mode)) return 0;
    for (i = 0; i < rules->n_sockets; i++)
        if (rules->sockets[i].device == file.st_dev && rules->sockets[i].inode == file.st_ino) return 1;
    return 0;
}

static int refuse_unix(struct emulated_call *req) {
    refuse(req);
    return -EPERM;
}

/* An abstract name is looked for in the network namespace of the socket. Where that is the host's, Landlock would keep
 * the caller from it, and does not keep us. */
int reach_unix(struct emulated_call *req, const struct psb_rules *rules, struct sockaddr_storage *to, uint32_t *size,
               int *held) {
    const struct sockaddr_un *from = (const struct sockaddr_un *)req->facts.address.bytes;
    struct sockaddr_un *name = (struct sockaddr_un *)to;
    char path[sizeof from->sun_path + 1] = {0}, whole[4096];
    int result;
    if (*size <= offsetof(struct sockaddr_un, sun_path) || from->sun_family != AF_UNIX) return 0;
    if (*size > sizeof *from) return -EINVAL; /* as the kernel says (unix_validate_addr); the rest has no room here */
    if (!from->sun_path[0]) return rules->abstract ? 0 : refuse_unix(req);
    if (!is_same_user(&req->facts.caller)) return -EACCES;
    memcpy(path, from->sun_path, *size - offsetof(struct sockaddr_un, sun_path));
    result = absolute(&req->facts.caller, path, whole, sizeof whole);
    if (result) return result;
    *held = open_in_root(&req->facts.caller, whole);
    if (*held < 0) return *held;
    if (rules->on_host && !is_granted(*held, rules)) {
        close_own(*held);
        *held = -1;
        return refuse_unix(req);
    }
    memset(to, 0, sizeof *to);
    name->sun_family = AF_UNIX;
    *size = (uint32_t)offsetof(struct sockaddr_un, sun_path) + 1 +
            (uint32_t)snprintf(name->sun_path, sizeof name->sun_path, "/proc/self/fd/%d", *held);
    return 0;
}

/* A name, in the file system or an abstract one, would be found by others of the host; so would a port. */
int takes_a_name(struct emulated_call *req, const struct psb_rules *rules, int *number) {
    const int binds = req->facts.number == SYS_bind;
    if (!rules->on_host || (!binds && req->facts.number != SYS_listen)) return 0;
    if (req->facts.domain == AF_UNIX) {
        *number = refuse_unix(req);
        return 1;
    }
    *number = -EACCES;
    return binds && is_inet(&req->facts) && rules->keeps_ports;
}
