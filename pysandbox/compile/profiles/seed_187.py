"""Document 001's baseline, name for name: 187 allowed, 18 denied.

Kept for compatibility; `baseline` is the default because touch, tar, ls -l, df and timeout need more than this.
clone3 and openat2 are on the list and are answered as absent all the same (see `arguments`).
"""

from __future__ import annotations

from pysandbox.compile.profiles import Profile, group

ALLOW = (
    group(
        "start, signal and wait for processes",
        "fork vfork clone clone3 execve kill tkill tgkill exit exit_group wait4 waitid",
    ),
    group("settings of the process itself", "prctl"),
    group(
        "open files and move bytes",
        """open openat openat2 creat close close_range read write readv writev pread64 pwrite64 lseek dup dup2 dup3
        fcntl flock fsync fdatasync truncate ftruncate fallocate""",
    ),
    group(
        "what a file is, whose it is and who may use it",
        """stat fstat lstat newfstatat statx access faccessat faccessat2 chmod fchmod fchmodat chown fchown lchown
        fchownat""",
    ),
    group(
        "names and directories",
        """mkdir mkdirat rmdir rename renameat renameat2 link linkat unlink unlinkat symlink symlinkat readlink
        readlinkat getdents getdents64""",
    ),
    group("memory", "mmap mprotect munmap mremap madvise msync brk mlock mlock2 munlock mlockall munlockall"),
    group(
        "sockets; which ones is a rule on socket's arguments",
        """socket connect accept accept4 bind listen sendto recvfrom sendmsg sendmmsg recvmsg shutdown getsockopt
        setsockopt getsockname getpeername socketpair""",
    ),
    group("signal handlers and masks", "rt_sigaction rt_sigprocmask rt_sigreturn rt_sigsuspend sigaltstack"),
    group("read clocks, and sleep", "nanosleep clock_nanosleep clock_gettime clock_getres gettimeofday"),
    group(
        "wait for events",
        """poll ppoll select pselect6 epoll_create epoll_create1 epoll_ctl epoll_wait epoll_pwait epoll_pwait2 eventfd
        eventfd2 timerfd_create timerfd_settime timerfd_gettime""",
    ),
    group("watch files", "inotify_init inotify_init1 inotify_add_watch inotify_rm_watch"),
    group(
        "pipes and System V IPC; the IPC namespace bounds the latter",
        "pipe pipe2 shmget shmat shmctl shmdt semget semop semctl msgget msgsnd msgrcv msgctl",
    ),
    group(
        "who the process is; a user namespace bounds the setters",
        """getpid getppid getuid getgid geteuid getegid gettid getpgid getpgrp setpgid setsid getgroups setgroups setuid
        setgid setreuid setregid setresuid setresgid""",
    ),
    group("devices and terminals, and kernel aio", "ioctl io_setup io_submit io_getevents io_destroy"),
    group(
        "threads and scheduling",
        """futex set_tid_address set_robust_list get_robust_list sched_yield sched_getaffinity sched_setaffinity
        sched_setscheduler sched_getscheduler rseq""",
    ),
    group(
        "the rest that libc needs",
        """getcwd chdir fchdir umask uname sysinfo getrusage getrandom prlimit64 pidfd_open copy_file_range sendfile
        splice tee""",
    ),
    group("the thread pointer on x86-64", "arch_prctl"),
)

DENY = (
    group("power, other kernels, modules", "reboot kexec_load init_module finit_module delete_module"),
    group("swap and accounting", "swapon swapoff acct"),
    group("the mount tree", "mount umount2 pivot_root chroot"),
    group("the kernel's log and clock", "syslog settimeofday"),
    group("namespaces", "unshare setns"),
    group("executables that never were a file", "memfd_create execveat"),
)

PROFILE = Profile(
    "seed-187", "document 001's list, for compatibility", ("allow-list", "deny-list"), allow=ALLOW, deny=DENY
)
