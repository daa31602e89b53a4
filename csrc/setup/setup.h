/* The steps that turn a fresh clone into a cage: one file per kernel primitive, one function each.
 *
 * CONTRACT. Everything here runs between clone(CLONE_VM | CLONE_VFORK) and execve, in the host's memory while the
 * host's thread is suspended: raw system calls only (sys.h); no allocation, no libc, no locks. Each function returns 0,
 * or -1 with *error filled where it failed. */
#ifndef PSB_SETUP_H
#define PSB_SETUP_H

#include <linux/errno.h>

#include "../error.h"

struct psb_launch {
    const struct psb_plan *plan;
    int init_fd;    /* the cage-init executable */
    int control_fd; /* the cage's end of the control socket */
    int host_pidfd;
    int armed; /* set just before the execve: what ended without it and without an error was killed in the setup */
    const int *trees; /* for each mount what the host has taken for it (host/spawn/passage.c); NULL: nothing */
    struct psb_error error;
};

#define NO_TREE (-4096) /* no errno */

/* A want of the moment (out of memory, out of descriptors, interrupted, refused by a filter around the host): it tells
 * nothing about the file that was asked for, so nothing is left out because of it. `number` is an errno. */
static inline int says_nothing_of_the_file(long number) {
    return number == EPERM || number == EINTR || number == ENOMEM || number == ENFILE || number == EMFILE;
}

/* Looks at an O_PATH descriptor: 0, -ESTALE when it is not (dev, ino) any more (ino 0: any will do), or -errno. */
long check_inode(long fd, uint64_t dev, uint64_t ino, int *is_directory);
int is_unlinked(long fd);

int enter_user_namespace(const struct psb_plan *plan, struct psb_error *error);
int leave_inotify_to_the_user(const struct psb_plan *plan, struct psb_error *error);
int leave_limits_to_the_user(const struct psb_plan *plan, struct psb_error *error);
int leave_host_keyring(const struct psb_plan *plan, struct psb_error *error);
int set_hostname(const struct psb_plan *plan, struct psb_error *error);
int make_root(const struct psb_launch *launch, struct psb_error *error);
/* `tree`: the mount that the host has taken of the source, -errno when it could not, or NO_TREE. */
int carry_out_mount(const struct psb_mount *mount, int tree, const char *staging, struct psb_error *error);
/* The upper layers of the cage's copy-on-write trees, and one such tree, where `tree` is as above; the host gets a
 * descriptor of the layers, and no path leads to them any more (overlay.c). */
int make_upper(const struct psb_mount *mount, int tree, const char *staging, struct psb_error *error);
int make_overlay(const struct psb_mount *mount, int tree, const char *staging, struct psb_error *error);
int give_upper(const struct psb_launch *launch, struct psb_error *error);
/* Where a cover goes, as move_mount(2) wants it. */
struct cover_place {
    int directory;
    const char *path;
    unsigned flags;
};
/* Covers the place with a new object of this mode, sealed and without a name; `path`: where it is for a moment. 0, or
 * -errno. */
long cover_with_new(const char *path, int directory, uint32_t mode, const struct cover_place *place);
int raise_loopback(const struct psb_plan *plan, struct psb_error *error);
/* Returns the ruleset's descriptor, or -1. */
int make_ruleset(const struct psb_landlock *landlock, struct psb_error *error);
int scope_init_signals(const struct psb_plan *plan, struct psb_error *error);
int drop_capabilities(const struct psb_plan *plan, struct psb_error *error);
int become_init(struct psb_launch *launch, int ruleset_fd, struct psb_error *error);

/* The whole of it; returns only on failure. */
int set_up_and_become_init(struct psb_launch *launch);

#endif
