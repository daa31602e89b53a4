/*
 * What this kernel lets this caller do, found out by trying it.
 *
 * cffi reads this file too, with the preprocessor lines taken out: plain declarations only.
 * The rows of `pysandbox check` (pysandbox/probe/features.py) name these constants without PSB_PROBE_.
 */
#ifndef PSB_HOST_PROBE_H
#define PSB_HOST_PROBE_H

#include <stddef.h>
#include <stdint.h>

enum psb_probe_name {
    PSB_PROBE_FULL, /* all that a cage with isolation "full" needs, at once; the quick way to a yes */
    PSB_PROBE_USER_NS,
    PSB_PROBE_PID_NS,
    PSB_PROBE_MOUNT_NS,
    PSB_PROBE_NET_NS,
    PSB_PROBE_IPC_NS,
    PSB_PROBE_UTS_NS,
    PSB_PROBE_CGROUP_NS,
    PSB_PROBE_PROC,
    PSB_PROBE_MOUNT_SETATTR,
    PSB_PROBE_TMPFS,
    PSB_PROBE_TMPFS_XATTR,
    PSB_PROBE_OVERLAY,
    PSB_PROBE_BINFMT_MISC,
    PSB_PROBE_SECCOMP_FILTER,
    PSB_PROBE_USER_NOTIF,
    PSB_PROBE_NOTIF_ADDFD,
    PSB_PROBE_SYNC_WAKE_UP,
    PSB_PROBE_WAIT_KILLABLE,
    PSB_PROBE_PIDFD,
    PSB_PROBE_PIDFD_THREAD,
    PSB_PROBE_CLONE_INTO_CGROUP,
    PSB_PROBE_CLOSE_RANGE,
    PSB_PROBE_COUNT
};

/* 0, or the errno of the first call that failed; EINVAL for a name that is not one. Leaves nothing behind. */
int psb_probe(int name);

/* One path and the inode it led to when it was looked at; ino 0: it led to none. */
struct psb_seen {
    const char *path;
    uint64_t dev; /* as st_dev */
    uint64_t ino;
    uint64_t
        bare; /* of a directory: its time of change (ns) when all `within` it were last found absent; 0 or 1: never */
    uint32_t within; /* 1: a name of the directory that is the nearest row before with 0 here, reached by no symlink */
};

/* 1 when every path still leads there, 0 when one does not. What was absent in a directory that has not changed since
 * is absent: such rows cost nothing. */
int psb_still_there(struct psb_seen *seen, size_t count);

/* A name that was not there: `name` below the directory `tree`, which was reached without any symlink. */
struct psb_absent {
    const char *tree;
    const char *name;
    uint64_t bare; /* in the first row of a tree: as in psb_seen, of its names without a slash */
};

/* There is something by now at each of them or not, 1 or 0 in `there`; returns how many. No symlink is followed: a link
 * in the place, or on the way to it, is something. Those of one tree stand together. */
size_t psb_appeared(struct psb_absent *absent, size_t count, uint8_t *there);

/* The Landlock ABI (1 and up), or -errno. */
int psb_landlock_abi(void);

/* The Landlock errata this kernel has fixed, as a bit mask, or -errno (kernels before 6.15 cannot tell). */
int psb_landlock_errata(void);

#endif
