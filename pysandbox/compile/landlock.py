"""Landlock: which rights each ABI knows, and the two rulesets made of them.

In a full cage Landlock is the second wall. What is visible there is what the mounts show, so one rule on the cage's
root gives the right to read and execute all of it: a file of the host that leaks in by any other way (a descriptor, a
tree that was not detached) has another root above it and stays closed. Writing is granted tree by tree, so that a bind
that lost its read-only flag stays closed too. Two edges follow. Rights below a directory cannot be taken away again: a
read-only grant inside a writable one, or in the cage's own home, rests on its mount alone. And a new name beside the
cage's own directories, such as `mkdir /new`, is EACCES although the root is a tmpfs.

In landlock isolation the same rights are the first wall, tree by tree, at the host's paths (see `landlock_only`).

Every right that the kernel knows is handled (LL-02); ABI 7 brought audit flags and no right, and a newer kernel is
driven as ABI 7.
"""

from __future__ import annotations

from collections.abc import Iterator

from pysandbox.compile.exec_list import restricted
from pysandbox.compile.mounts import OWN_TMPFS, own_directories
from pysandbox.compile.plan import LandlockPlan, LandlockRule
from pysandbox.compile.view import View
from pysandbox.policy.model import Policy
from pysandbox.probe.facts import HostFacts, PathFacts

NEWEST_ABI = 7

Rights = tuple[str, ...]
READ: Rights = ("EXECUTE", "READ_FILE", "READ_DIR")
NEW_IN_ABI: dict[int, Rights] = {
    1: (*READ, "WRITE_FILE", "REMOVE_DIR", "REMOVE_FILE", "MAKE_CHAR", "MAKE_DIR", "MAKE_REG", "MAKE_SOCK", "MAKE_FIFO",
        "MAKE_BLOCK", "MAKE_SYM"),
    2: ("REFER",),
    3: ("TRUNCATE",),
    5: ("IOCTL_DEV",),
}  # fmt: skip
# Indexed by ABI; 0 knows nothing.
FS_RIGHTS: tuple[Rights, ...] = tuple(
    tuple(right for since, rights in NEW_IN_ABI.items() if since <= abi for right in rights)
    for abi in range(NEWEST_ABI + 1)
)
NET_RIGHTS: tuple[Rights, ...] = tuple(("BIND_TCP", "CONNECT_TCP") if abi >= 4 else () for abi in range(NEWEST_ABI + 1))
SCOPES: tuple[Rights, ...] = tuple(
    ("ABSTRACT_UNIX_SOCKET", "SIGNAL") if abi >= 6 else () for abi in range(NEWEST_ABI + 1)
)
# All that a rule on a file may hold; a right of directories there is EINVAL.
ON_FILES = frozenset(("EXECUTE", "READ_FILE", "WRITE_FILE", "TRUNCATE", "IOCTL_DEV"))
ON_DEVICES = frozenset(("WRITE_FILE", "TRUNCATE", "IOCTL_DEV"))
# A process may write what is its own there, such as comm and oom_score_adj; the mounts close the rest.
ON_PROC = frozenset(("WRITE_FILE", "TRUNCATE"))


def abi_of(host: HostFacts) -> int:
    return min(host.landlock_abi, NEWEST_ABI)


def ruleset_in_cage(policy: Policy, host: HostFacts, paths: PathFacts, view: View) -> LandlockPlan | None:
    """Behind the namespaces: no scope for signals, which the PID namespace has, so that the commands of one session
    may signal each other; abstract sockets are scoped only where there is no network namespace to hold them."""
    abi = abi_of(host)
    if abi == 0:
        return None
    every = FS_RIGHTS[abi]
    scoped = tuple(name for name in SCOPES[abi] if name != "SIGNAL" and policy.egress == "direct")
    return LandlockPlan(handled_fs=every, handled_net=(), scoped=scoped,
                        rules=tuple(restricted(_cage_rules(every, policy, paths, view), policy, view)))  # fmt: skip


def _cage_rules(every: Rights, policy: Policy, paths: PathFacts, view: View) -> Iterator[LandlockRule]:
    yield LandlockRule("/", READ)
    yield LandlockRule("/dev", tuple(right for right in every if right in ON_DEVICES))
    yield LandlockRule("/proc", tuple(right for right in every if right in ON_PROC))
    yield LandlockRule("/dev/mqueue", every, optional=True)  # mq_open walks up to the root of the queues and no further
    for path in (*OWN_TMPFS, *own_directories(policy, paths, view)):
        yield LandlockRule(path, every)
    if policy.state == "scratch":
        yield LandlockRule("/scratch", every)
    yield from tree_rules(every, view, writable_only=True)


def tree_rules(every: Rights, view: View, *, writable_only: bool) -> Iterator[LandlockRule]:
    """One rule for each tree that is not itself a read-only place inside a wider one."""
    for real, tree in view.trees.items():
        if tree.writable or not writable_only:
            rights = every if tree.writable else READ
            if tree.fact.kind != "dir":
                rights = tuple(right for right in rights if right in ON_FILES)
            inode = (0, 0) if tree.cow else (tree.fact.dev, tree.fact.ino)  # an overlay's is another
            yield LandlockRule(real, rights, tree.optional, *inode)
