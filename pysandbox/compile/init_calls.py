"""The system calls of cage-init, and whether a policy's filter lets it make them.

A filter that cage-init can live under is installed once, in cage-init, and inherited by every command: that saves some
80 us on each, and puts cage-init itself under the filter. Otherwise each command installs it on its own.
"""

from __future__ import annotations

from pysandbox.policy.model import Policy

# What csrc/init calls once the filter may be in force; a test compares this with the sources and with the filters.
INIT_CALLS = frozenset(
    {
        "chdir", "clock_gettime", "clone", "close", "dup3", "execve", "exit_group", "fcntl", "futex", "getdents64",
        "getpid", "ioctl", "kill", "landlock_restrict_self", "mmap", "munmap", "openat", "ppoll", "prctl", "prlimit64",
        "read", "recvmsg", "rt_sigprocmask", "setsid", "umask", "wait4", "write",
    }
)  # fmt: skip
ROOMY_PROFILES = frozenset({"baseline", "default", "relaxed"})  # seed-187 has no landlock_restrict_self


def init_can_live_under(policy: Policy) -> bool:
    return policy.seccomp in ROOMY_PROFILES and not INIT_CALLS.intersection(policy.deny_syscalls)
