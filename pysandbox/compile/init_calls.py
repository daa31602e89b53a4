"""The system calls of cage-init and of a command's start, and what becomes of them under a policy's filter.

One filter is installed in cage-init and inherited by every command: that saves some 80 us on each. What cage-init must
do (wall time, signals, reaping, orders, the steps of a start) never depends on what the policy refuses. So the filter
that was compiled for the policy is asked, as the kernel will ask it, about each call that cage-init makes, with the
registers it makes it with. Where it answers no, or "ask the supervisor", that call is left open in the cage's filter,
and closed again by a second one, which each command installs last before its execve.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from pysandbox.compile import bpf_run

RET_DATA = 0x0000FFFF
RET_ALLOW, RET_LOG, RET_USER_NOTIF = 0x7FFF0000, 0x7FFC0000, 0x7FC00000  # <linux/seccomp.h>

CWD = 0xFFFFFFFFFFFFFF9C  # AT_FDCWD
CLOEXEC, DIRECTORY = 0o2000000, 0o200000
CLONE_VM, SIGCHLD = 0x100, 17
F_DUPFD_CLOEXEC, TIOCSCTTY = 1030, 0x540E
PR_SET_PDEATHSIG, PR_SET_DUMPABLE = 1, 4

# What csrc/init calls once the filter is in force, and the registers that a filter may look at, one row for each way
# it makes the call. A test compares the names with the sources.
ANY: tuple[tuple[int, ...], ...] = ((),)
INIT_CALLS: Mapping[str, tuple[tuple[int, ...], ...]] = {
    **dict.fromkeys(
        (
            "chdir", "clock_gettime", "close", "dup3", "exit_group", "getdents64", "getpid", "kill",
            "landlock_restrict_self", "lseek", "mmap", "munmap", "pipe2", "ppoll", "read", "recvmsg", "rt_sigprocmask",
            "setsid", "umask", "wait4", "write",
        ), ANY,
    ),
    "clone": ((CLONE_VM | SIGCHLD,),),
    "fcntl": ((0, F_DUPFD_CLOEXEC),),
    "ioctl": ((0, TIOCSCTTY),),
    "openat": ((CWD, 0, CLOEXEC), (CWD, 0, CLOEXEC | DIRECTORY)),
    "prctl": ((PR_SET_PDEATHSIG, 9), (PR_SET_DUMPABLE, 1)),
    "prlimit64": ANY,
}  # fmt: skip
# openat where the policy's filter lets it pass, else this: no profile allows it to a command.
OPENS_INSTEAD = "openat2"
INSTALLS = "seccomp"  # the second filter


@lru_cache(maxsize=64)
def left_open(program: bytes, machine: str) -> frozenset[str]:
    """The calls that this filter refuses cage-init, or has the supervisor decide; mostly none."""
    if not program:
        return frozenset()
    lost = {OPENS_INSTEAD if name == "openat" else name
            for name, ways in INIT_CALLS.items() if not _passes(program, machine, name, ways)}  # fmt: skip
    if lost and not _passes(program, machine, INSTALLS, ((1,),)):
        lost.add(INSTALLS)
    return frozenset(lost)


def lets_execute(program: bytes, machine: str) -> bool:
    """Whether a command can be started at all; the supervisor may have a word in it."""
    return not program or _answer(program, machine, "execve", ()) in (RET_ALLOW, RET_LOG, RET_USER_NOTIF)


def _passes(program: bytes, machine: str, name: str, ways: tuple[tuple[int, ...], ...]) -> bool:
    return all(_answer(program, machine, name, registers) in (RET_ALLOW, RET_LOG) for registers in ways)


def _answer(program: bytes, machine: str, name: str, registers: tuple[int, ...]) -> int:
    from pysandbox.compile.syscalls import table

    known = table(machine)
    return bpf_run.answer(program, known.audit_arch, known.numbers[name], registers) & ~RET_DATA
