/* A grammar of calls: each row is a number and a letter for each argument; each letter draws a value, or fills a
 * struct (values.c). A new call is one more row. */
#define _GNU_SOURCE
#include "calls.h"

#include <sys/syscall.h>
#include <unistd.h>

#include "values.h"

/* What the headers of an older system do not name has its number here. */
enum {
    N_IO_URING_SETUP = 425,
    N_IO_URING_ENTER,
    N_IO_URING_REGISTER,
    N_OPEN_TREE,
    N_MOVE_MOUNT,
    N_FSOPEN,
    N_FSCONFIG,
    N_FSMOUNT,
    N_FSPICK,
    N_PIDFD_OPEN,
    N_CLONE3,
    N_CLOSE_RANGE,
    N_OPENAT2,
    N_PIDFD_GETFD,
    N_FACCESSAT2,
    N_PROCESS_MADVISE,
    N_EPOLL_PWAIT2,
    N_MOUNT_SETATTR,
    N_QUOTACTL_FD,
    N_LANDLOCK_CREATE,
    N_LANDLOCK_ADD,
    N_LANDLOCK_RESTRICT,
    N_MEMFD_SECRET,
    N_PROCESS_MRELEASE,
    N_FUTEX_WAITV,
    N_SET_MEMPOLICY_HOME,
    N_CACHESTAT,
    N_FCHMODAT2,
    N_MAP_SHADOW_STACK,
    N_FUTEX_WAKE,
    N_FUTEX_WAIT,
    N_FUTEX_REQUEUE,
    N_STATMOUNT,
    N_LISTMOUNT,
    N_LSM_GET,
    N_LSM_SET,
    N_LSM_LIST,
    N_MSEAL,
    N_SETXATTRAT,
    N_OPEN_TREE_ATTR = 467,
    N_FILE_SETATTR = 469
};

static const struct row {
    short number;
    const char *arguments;
} rows[] = {
    /* files: the path is a granted one, one beside it, or one of the kernel's */
    {SYS_openat, "dpxm"},
    {N_OPENAT2, "dpHz"},
    {SYS_mknodat, "dpmn"},
    {SYS_mkdirat, "dpm"},
    {SYS_unlinkat, "dpn"},
    {SYS_linkat, "dpdpx"},
    {SYS_symlinkat, "pdp"},
    {SYS_renameat2, "dpdpn"},
    {SYS_fchmodat, "dpm"},
    {N_FCHMODAT2, "dpmx"},
    {SYS_fchownat, "dpnnx"},
    {SYS_truncate, "pn"},
    {SYS_ftruncate, "fn"},
    {SYS_utimensat, "dpTn"},
    {SYS_setxattr, "pkbnn"},
    {SYS_fsetxattr, "fkbnn"},
    {N_SETXATTRAT, "dpxkbn"},
    {SYS_removexattr, "pk"},
    {SYS_name_to_handle_at, "dpbbn"},
    {SYS_open_by_handle_at, "fbx"},
    {SYS_statx, "dpxnb"},
    {N_FACCESSAT2, "dpnx"},
    {SYS_fallocate, "fnnn"},
    {SYS_copy_file_range, "f0f0nn"},
    {SYS_splice, "f0f0nn"},
    {SYS_sendfile, "ff0n"},
    {SYS_fcntl, "fcn"},
    {SYS_flock, "fn"},
    {SYS_dup3, "ffx"},
    {N_CLOSE_RANGE, "ffx"},
    {N_FILE_SETATTR, "dpbnn"},
    {SYS_inotify_add_watch, "fpx"},
    {SYS_fanotify_init, "xx"},
    {SYS_fanotify_mark, "fxxdp"},
    {SYS_chroot, "p"},
    {SYS_chdir, "p"},
    {SYS_acct, "p"},
    {SYS_swapon, "pn"},
    {SYS_quotactl, "xpnb"},
    {N_QUOTACTL_FD, "fxnb"},
    {SYS_pivot_root, "pp"},
    {N_CACHESTAT, "fbbn"},
    /* mounts */
    {SYS_mount, "ppkxb"},
    {SYS_umount2, "px"},
    {N_FSOPEN, "kn"},
    {N_FSCONFIG, "fnkbn"},
    {N_FSMOUNT, "fnx"},
    {N_FSPICK, "dpx"},
    {N_OPEN_TREE, "dpx"},
    {N_MOVE_MOUNT, "dpdpx"},
    {N_MOUNT_SETATTR, "dpxSz"},
    {N_OPEN_TREE_ATTR, "dpxSz"},
    {N_STATMOUNT, "bbnn"},
    {N_LISTMOUNT, "bbnn"},
    /* namespaces and processes */
    {SYS_unshare, "s"},
    {SYS_setns, "fs"},
    {N_CLONE3, "Cz"},
    {SYS_clone, "s00000"},
    {N_PIDFD_OPEN, "Px"},
    {N_PIDFD_GETFD, "ffn"},
    {SYS_pidfd_send_signal, "fg0x"},
    {N_PROCESS_MADVISE, "fVnnn"},
    {N_PROCESS_MRELEASE, "fn"},
    {SYS_process_vm_readv, "PVnVnn"},
    {SYS_process_vm_writev, "PVnVnn"},
    {SYS_ptrace, "nPbb"},
    {SYS_kcmp, "PPnff"},
    {SYS_kill, "Pg"},
    {SYS_tgkill, "PPg"},
    {SYS_rt_sigqueueinfo, "Pgb"},
    {SYS_prlimit64, "PnRb"},
    {SYS_setpriority, "nPn"},
    {SYS_sched_setaffinity, "Pnb"},
    {SYS_sched_setscheduler, "Pnb"},
    {SYS_ioprio_set, "nPn"},
    {SYS_sched_setattr, "Pbn"},
    {SYS_migrate_pages, "Pnbb"},
    {SYS_move_pages, "Pnbbbn"},
    {SYS_setpgid, "PP"},
    {SYS_setresuid, "nnn"},
    {SYS_setresgid, "nnn"},
    {SYS_setgroups, "nb"},
    {SYS_capset, "bb"},
    {SYS_personality, "x"},
    {SYS_execveat, "dpAAx"},
    {SYS_execve, "pAA"},
    {SYS_prctl, "ybbbb"},
    {SYS_prctl, "ynnnn"},
    {SYS_seccomp, "nxF"},
    {SYS_setrlimit, "nR"},
    {SYS_setsid, ""},
    {SYS_vhangup, ""},
    {SYS_reboot, "xxxb"},
    {SYS_sethostname, "bn"},
    {SYS_setdomainname, "bn"},
    {SYS_settimeofday, "Tb"},
    {SYS_clock_settime, "nT"},
    {SYS_adjtimex, "b"},
    {SYS_syslog, "nbn"},
    {SYS_delete_module, "kx"},
    {SYS_finit_module, "fkx"},
    {SYS_kexec_load, "nnbx"},
    /* kernel facilities */
    {N_IO_URING_SETUP, "nU"},
    {N_IO_URING_ENTER, "fnnxbn"},
    {N_IO_URING_REGISTER, "fnbn"},
    {SYS_bpf, "nBz"},
    {SYS_perf_event_open, "bPnfx"},
    {SYS_userfaultfd, "x"},
    {SYS_keyctl, "nnnnn"},
    {SYS_add_key, "kkbnn"},
    {SYS_request_key, "kkkn"},
    {SYS_memfd_create, "kx"},
    {N_MEMFD_SECRET, "x"},
    {N_MAP_SHADOW_STACK, "bnx"},
    {N_LANDLOCK_CREATE, "Lnx"},
    {N_LANDLOCK_ADD, "fnLx"},
    {N_LANDLOCK_RESTRICT, "fx"},
    {N_LSM_SET, "nbnn"},
    {SYS_futex, "bnnTbn"},
    {N_FUTEX_WAITV, "Wn0Tn"},
    {N_FUTEX_WAKE, "bnnn"},
    {N_FUTEX_REQUEUE, "Wnnn"},
    {SYS_mmap, "0nnxfn"},
    {SYS_mprotect, "bnn"},
    {SYS_mremap, "bnnnb"},
    {SYS_madvise, "bnn"},
    {N_MSEAL, "bnn"},
    {SYS_remap_file_pages, "bnnnn"},
    {SYS_pkey_mprotect, "bnnn"},
    {SYS_mbind, "bnnbnn"},
    {SYS_vmsplice, "fVnn"},
    {SYS_shmget, "nnx"},
    {SYS_shmat, "nbx"},
    {SYS_shmctl, "nnb"},
    {SYS_semget, "nnx"},
    {SYS_semop, "nbn"},
    {SYS_msgget, "nx"},
    {SYS_msgsnd, "nbnn"},
    {SYS_mq_open, "kxmb"},
    {SYS_timer_create, "nbb"},
    {SYS_timerfd_settime, "fnbb"},
    {SYS_io_setup, "nb"},
    {SYS_io_submit, "nnb"},
    {SYS_epoll_ctl, "fnfb"},
    {SYS_ioctl, "fib"},
    {SYS_ioctl, "fin"},
    {SYS_ioctl, "fib"},
    /* sockets: of every family, with every kind of ancillary data */
    {SYS_socket, "atn"},
    {SYS_socket, "atn"},
    {SYS_socketpair, "atnb"},
    {SYS_connect, "fDz"},
    {SYS_bind, "fDz"},
    {SYS_listen, "fn"},
    {SYS_accept4, "fbbx"},
    {SYS_sendto, "fbnxDz"},
    {SYS_sendto, "fQnxDz"},
    {SYS_sendmsg, "fMx"},
    {SYS_sendmsg, "fMx"},
    {SYS_sendmmsg, "fMnx"},
    {SYS_recvmsg, "fMx"},
    {SYS_recvmmsg, "fMnxT"},
    {SYS_setsockopt, "flobn"},
    {SYS_setsockopt, "fnnbn"},
    {SYS_getsockopt, "flobb"},
    {SYS_shutdown, "fn"},
#ifdef __x86_64__
    {SYS_arch_prctl, "xb"},
    {SYS_arch_prctl, "nb"},
    {SYS_modify_ldt, "nbn"},
    {SYS_iopl, "n"},
    {SYS_ioperm, "nnn"},
    {SYS_open, "pxm"},
    {SYS_creat, "pm"},
    {SYS_rename, "pp"},
    {SYS_link, "pp"},
    {SYS_chmod, "pm"},
    {SYS_lchown, "pnn"},
    {SYS_unlink, "p"},
    {SYS_rmdir, "p"},
    {SYS_symlink, "pp"},
    {SYS_mknod, "pmn"},
    {SYS_uselib, "p"},
#endif
};

/* A copy of the process, by clone or clone3, has nothing more to do. */
void make_a_call_of_the_grammar(void) {
    const struct row *row = &rows[draw() % (sizeof rows / sizeof *rows)];
    const pid_t before = getpid();
    long arguments[6] = {0};
    size_t i;
    for (i = 0; i < 6 && row->arguments[i]; i++) arguments[i] = draw_argument(row->arguments[i]);
    syscall(row->number, arguments[0], arguments[1], arguments[2], arguments[3], arguments[4], arguments[5]);
    if (getpid() != before) _exit(0);
}

#ifdef __x86_64__
void make_a_call_of_another_table(void) {
    const long number = (long)(draw() % 470);
    if (draw() % 2) {
        long result;
        if (number == 1 || number == 252) return; /* exit, exit_group */
        __asm__ volatile("int $0x80"
                         : "=a"(result)
                         : "0"(number), "b"(small()), "c"(small()), "d"(small()), "S"(small()), "D"(small())
                         : "memory", "r8", "r9", "r10", "r11");
    } else {
        syscall(0x40000000 | (number % 550), draw_argument('f'), draw_argument('b'), draw_argument('n'),
                draw_argument('b'), draw_argument('n'), draw_argument('n'));
    }
}
#else
void make_a_call_of_another_table(void) {
}
#endif
