/* What this kernel lets this caller do, found out by trying it (read by cffi, preprocessor lines stripped). The rows of
 * `pysandbox check` (pysandbox/probe/features.py) name these constants without PSB_PROBE_. */
#ifndef PSB_HOST_PROBE_H
#define PSB_HOST_PROBE_H

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

/* The Landlock ABI (1 and up), or -errno. */
int psb_landlock_abi(void);

/* The Landlock errata this kernel has fixed, as a bit mask, or -errno (kernels before 6.15 cannot tell). */
int psb_landlock_errata(void);

#endif
