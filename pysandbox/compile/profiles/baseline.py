"""The default: seed_187 and what common programs need beyond it.

Each group says who needs it. tests/kernel/test_seccomp_live.py runs such programs under this very filter.
"""

from __future__ import annotations

from pysandbox.compile.bpf import CallAction, When
from pysandbox.compile.profiles import Profile, group, seed_187

BEYOND_SEED = (
    group(
        "a sleep or poll that was stopped and continued is resumed by this call, not by the program",
        "restart_syscall",
    ),
    group("touch, cp -p, tar, make: times of files", "utimensat utime utimes futimesat"),
    group("df, git, apt, glibc: which file system", "statfs fstatfs"),
    group(
        "ls -l, cp -a, tar, git: extended attributes",
        """getxattr lgetxattr fgetxattr listxattr llistxattr flistxattr setxattr lsetxattr fsetxattr removexattr
        lremovexattr fremovexattr getxattrat listxattrat setxattrat removexattrat file_getattr file_setattr""",
    ),
    group("mkfifo; a device node needs a capability that no cage has", "mknod mknodat"),
    group("chmod without following a symlink, since glibc 2.39", "fchmodat2"),
    group(
        "databases, tar, dd, package managers: reach the disk, read ahead",
        "sync syncfs sync_file_range fadvise64 readahead cachestat",
    ),
    group("Java, Node, databases: vectored reads and writes at an offset", "preadv pwritev preadv2 pwritev2"),
    group("kernel aio, the rest of it", "io_cancel io_pgetevents"),
    group("timeout, Go, Java: timers", "timer_create timer_settime timer_gettime timer_getoverrun timer_delete"),
    group(
        "alarm, sleep loops, profilers: interval timers and old clocks",
        "alarm pause getitimer setitimer time times",
    ),
    group(
        "test runners, init programs, Go: signals waited for, sent to a thread or by a pidfd",
        "rt_sigpending rt_sigtimedwait rt_sigqueueinfo rt_tgsigqueueinfo signalfd signalfd4 pidfd_send_signal",
    ),
    group(
        "bash job control, ps, setpriv: sessions and identities",
        "getsid getresuid getresgid setfsuid setfsgid capget capset",
    ),
    group("limits; raising one needs a capability that no cage has", "getrlimit setrlimit"),
    group("nice, ionice, chrt", "getpriority setpriority ioprio_get ioprio_set"),
    group(
        "Java, Go, OpenMP: scheduling of threads",
        """sched_getparam sched_setparam sched_getattr sched_setattr sched_get_priority_max sched_get_priority_min
        sched_rr_get_interval getcpu""",
    ),
    group(
        "Rust, Java, Node, liburcu: barriers and newer futexes",
        "membarrier futex_waitv futex_wait futex_wake futex_requeue",
    ),
    group("numpy, OpenBLAS, Java: memory placement", "mbind get_mempolicy set_mempolicy set_mempolicy_home_node"),
    group(
        "V8, glibc, allocators: memory protection and advice",
        "pkey_alloc pkey_free pkey_mprotect mincore mseal map_shadow_stack process_madvise",
    ),
    group("DNS resolvers, Go: many datagrams in one call", "recvmmsg"),
    group(
        "PostgreSQL, Boost: System V waits and POSIX queues",
        "semtimedop mq_open mq_unlink mq_timedsend mq_timedreceive mq_notify mq_getsetattr",
    ),
    group(
        "self-sandboxing; both can only tighten",
        "seccomp landlock_create_ruleset landlock_add_rule landlock_restrict_self",
    ),
    group("what a traced function returns through; only the kernel's trampoline may make it", "uretprobe uprobe"),
    group("read the execution domain, set the plain one", "personality"),
)

# <linux/personality.h>: 0xffffffff asks, 0 is PER_LINUX. The rest stop randomising addresses or make data executable.
PERSONALITY = When(0, 0xFFFFFFFF, (0xFFFFFFFF, 0), CallAction.ALLOW, CallAction.DENY)

PROFILE = Profile(
    "baseline",
    "the default: what common programs need",
    ("allow-list", "deny-list"),
    allow=seed_187.ALLOW + BEYOND_SEED,
    deny=seed_187.DENY,
    limited={"personality": PERSONALITY},
)
