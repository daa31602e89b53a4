"""The only place that weakens: what a host or this version lacks, and whether that refuses the cage or is noted.

    REFUSE    a denial that nothing else makes: an error that names the feature and the fix
    NOTE      a second wall or a check that something else stands in front of: a Note; under `strict` an error
    LIMIT     a limit that was asked for: an error; with `resources.required = false` a Note

The rows of SHORTFALLS are asked of policy and host together; GAPS are what landlock isolation leaves open and nobody
can close by asking (LL-05). To let something degrade, change its row; there is no second place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from pysandbox.compile.cow import COW, is_copied, is_cow, is_on_disk, is_overlaid
from pysandbox.compile.limits import pids_held_by, watches_scratch
from pysandbox.compile.notes import DEGRADED, ISOLATION_GAP, LIMITS_NOT_ENFORCED, not_coverable
from pysandbox.errors import UnsupportedError
from pysandbox.note import Note
from pysandbox.policy.model import Policy
from pysandbox.policy.way_out import has_way_out
from pysandbox.probe.facts import HostFacts, PathFacts
from pysandbox.shapes import dataclass, replace

REFUSE, NOTE, LIMIT = "refuse", "note", "limit"
CHECK = "`pysandbox check` says what forbids it and how to allow it"
DELEGATION = "have a cgroup delegated to this program (`pysandbox check` says how)"
TRUNCATE_ABI = 3  # Landlock rules on truncation, Linux 6.2
LANDLOCK = 'or set isolation = "landlock", which needs no namespace'


@dataclass(frozen=True, slots=True)
class Shortfall:
    feature: str  # as a row of `pysandbox check`
    key: str
    verdict: str
    lacking: Callable[[Policy, HostFacts], bool]
    lost: str
    fix: str


def _full(policy: Policy) -> bool:
    return policy.isolation == "full"


def _without(controller: str, asked: Callable[[Policy], bool]) -> Callable[[Policy, HostFacts], bool]:
    return lambda policy, host: asked(policy) and controller not in host.cgroup.controllers


SHORTFALLS: tuple[Shortfall, ...] = (
    Shortfall(
        "seccomp_filter", "syscalls.profile", REFUSE, lambda policy, host: not host.seccomp_filter,
        "this kernel has no seccomp filters, without which a cage cannot hold",
        "boot a kernel with CONFIG_SECCOMP_FILTER, or start the container without its own seccomp restrictions",
    ),
    Shortfall(
        "user_namespaces", "isolation", REFUSE, lambda policy, host: _full(policy) and not host.user_namespaces,
        "this host forbids user namespaces, and with them every other namespace of a cage",
        f"{CHECK}, {LANDLOCK}",
    ),
    Shortfall(
        "network_namespaces", "isolation", REFUSE,
        lambda policy, host: _full(policy) and policy.egress != "direct" and not host.network_namespaces,
        "this host forbids network namespaces, so a cage would have the host's network",
        f"{CHECK}, {LANDLOCK}",
    ),
    Shortfall(
        "mount_setattr", "isolation", REFUSE, lambda policy, host: _full(policy) and not host.mount_setattr,
        "this kernel has no mount_setattr, so a granted tree cannot be made read-only with what is mounted below it",
        "use Linux 5.12 or newer",
    ),
    Shortfall(
        "proc_mountable", "isolation", REFUSE, lambda policy, host: _full(policy) and not host.proc_mountable,
        "a new /proc cannot be mounted, because parts of this one are hidden, as in a container",
        f'start the container with an unmasked /proc (Docker: "--security-opt systempaths=unconfined"), {LANDLOCK}',
    ),
    Shortfall(
        "overlayfs", COW, REFUSE, lambda policy, host: is_overlaid(policy) and host.overlay == "overlayfs",
        "this host has no overlay file system for its users, on which copy-on-write directories are made",
        f'leave storage out, or set it to "copy", or use Linux 5.11 or newer with overlayfs; {CHECK}',
    ),
    Shortfall(
        "landlock", "isolation", REFUSE, lambda policy, host: not _full(policy) and host.landlock_abi == 0,
        'this kernel has no Landlock, which isolation = "landlock" is made of',
        'boot with landlock in the lsm= list (Linux 6.12 or newer), or set isolation = "full"',
    ),
    Shortfall(
        "landlock_scope", "isolation", REFUSE, lambda policy, host: not _full(policy) and 0 < host.landlock_abi < 6,
        "this kernel's Landlock cannot keep a command from signalling the caller's other processes or reaching their "
        "abstract sockets",
        'use Linux 6.12 or newer (Landlock ABI 6), or set isolation = "full"',
    ),
    Shortfall(
        "landlock", "process.allow_execve", REFUSE,
        lambda policy, host: bool(policy.allow_execve) and host.landlock_abi == 0,
        "this kernel has no Landlock, so any program in a library directory could be executed, on the list or not",
        "boot with landlock in the lsm= list, or leave allow_execve out",
    ),
    Shortfall(
        "landlock", "isolation", NOTE, lambda policy, host: _full(policy) and host.landlock_abi == 0,
        "this kernel has no Landlock: files are kept apart by mounts alone, and a file that was handed in for reading "
        "can be opened for writing",
        "boot with landlock in the lsm= list, or leave strict out",
    ),
    Shortfall(
        "landlock_refer", "isolation", NOTE, lambda policy, host: _full(policy) and host.landlock_abi == 1,
        "this kernel's Landlock refuses every rename and link between directories with EXDEV",
        "use Linux 5.19 or newer, or leave strict out",
    ),
    Shortfall(
        "landlock_scope", "network.egress", NOTE,
        lambda policy, host: _full(policy) and policy.egress == "direct" and host.landlock_abi < 6,
        "with the host's network the cage also reaches the host's abstract unix sockets",
        'use Linux 6.12 or newer, egress = "none", or leave strict out',
    ),
    Shortfall(
        "nf_tables", "network.egress", NOTE,
        lambda policy, host: _full(policy) and has_way_out(policy) and not host.nf_tables,
        "this kernel redirects no connections (nf_tables): a program that knows no proxy reaches a host on ports 80, "
        "443 and those that the policy names, and can ask no other name server",
        "have nf_tables loaded (`pysandbox check` says how), or leave strict out",
    ),
    Shortfall(
        "cgroup_pids", "process.max_pids", NOTE,
        lambda policy, host: policy.max_pids is not None and pids_held_by(policy, host) == "watchdog",
        "max_pids is held by a watchdog that counts the cage's processes some times a second and ends a cage that has "
        "more: no fork is refused",
        f"{DELEGATION}, or leave strict out",
    ),
    Shortfall(
        "cgroup_memory", "resources.memory_mb", NOTE, _without("memory", lambda policy: policy.memory_mb is not None),
        "memory_mb is held by a watchdog that samples the cage's processes and its memory file systems: a hog is "
        "stopped within half a second, what no process maps (socket buffers) is not counted, and System V shared "
        "memory is closed",
        f"{DELEGATION}, or leave strict out",
    ),
    Shortfall(
        "cow_on_disk", "resources.cow_mb", NOTE, lambda policy, host: is_on_disk(policy),
        "cow_mb is held by a watchdog that walks what was written some times a second: more is written before the cage "
        "is ended",
        'set storage = "memory", whose file system holds cow_mb itself, or leave strict out',
    ),
    Shortfall(
        "cgroup_v2", "resources.write_mb", NOTE, lambda policy, host: policy.write_mb is not None,
        "write_mb is held by a watchdog that adds up what the cage's processes have written some thirty times a "
        "second: more is written before the cage is ended, and what a process writes that nobody waits for is seen "
        "in part",
        "leave write_mb out, or strict: no kernel counts such writes as they are made",
    ),
    Shortfall(
        "cgroup_cpu", "resources.cpu_percent", NOTE, _without("cpu", lambda policy: policy.cpu_percent is not None),
        "cpu_percent is held by a watchdog that stops and continues the cage: exact over seconds, not over moments",
        f"{DELEGATION}, or leave strict out",
    ),
    Shortfall(
        "cgroup_cpu", "resources.cpu_shares", LIMIT, _without("cpu", lambda policy: policy.cpu_shares is not None),
        "nothing but a cgroup with the cpu controller weighs one cage against another",
        f"{DELEGATION}, leave cpu_shares out, or set resources.required = false to run without it",
    ),
)  # fmt: skip

# (key, when, what stays open). Closed elsewhere: ptrace and the memory of other processes (Landlock), signals and
# abstract sockets (Landlock scope), TCP (no rule on a port) unless egress is direct, the list of processes (no rule on
# /proc); by the filter: resource limits and scheduling of other processes, unix sockets by path, listening, every other
# protocol unless egress is direct, owner and attributes of files, System V and POSIX objects, what inotify tells.
GAPS: tuple[tuple[str, Callable[[Policy, HostFacts], bool], str], ...] = (
    ("isolation", lambda policy, host: True,
     "stat, access, readlink and getxattr show the metadata of any path of the host, granted or not"),
    ("isolation", lambda policy, host: True,
     "chmod and utimes work on any file that the caller owns and the command can name, or has open for reading"),
    ("isolation", lambda policy, host: True, "the host's name is shared with the caller"),
    ("process.run_as", lambda policy, host: policy.run_as == "nobody",
     "a command keeps the caller's user id, whatever run_as says"),
    ("isolation", lambda policy, host: True,
     "which processes of the host exist, their groups, scheduling and processor time, can be asked by number"),
    ("isolation", lambda policy, host: True,
     "the host's network interfaces, addresses, routes and neighbours are shown"),
    ("isolation", lambda policy, host: True,
     "a pair of unix sockets can take an abstract name of the host's network, where nobody else can then listen"),
    ("filesystem.allow", lambda policy, host: _shows_processes(policy),
     "/proc shows the command lines and the state of every process of the host"),
    ("syscalls.allow_extra", lambda policy, host: bool(_reopened(policy)),
     "a call was opened that reaches what is the caller's outside of the cage: the host's System V and POSIX objects, "
     "directories that were not granted (inotify), or owner and attributes of any file"),
    ("resources.tmp_mb", lambda policy, host: not watches_scratch(policy),
     "$TMPDIR is a directory of the host, held to tmp_mb only when that is set"),
    ("process.allow_execve", lambda policy, host: bool(policy.allow_execve),
     "a program that is not on the list, and can be read, can be run by the dynamic linker (ld.so FILE)"),
    ("network.egress", lambda policy, host: policy.egress == "direct",
     "TCP and UDP of the host are open, to any address and on any port"),
)  # fmt: skip


# Why no overlay can be had of the copy-on-write directories, and each cage gets a copy of them (`storage = "copy"`).
NO_OVERLAY: tuple[tuple[Callable[[Policy, HostFacts, PathFacts], bool], str], ...] = (
    (lambda policy, host, paths: not _full(policy), "without a mount namespace nothing is laid over a directory"),
    (lambda policy, host, paths: host.overlay == "overlayfs", "this host has no overlay file system for its users"),
    (lambda policy, host, paths: host.overlay == "tmpfs_xattr",
     'this kernel\'s tmpfs has no user attributes; storage = "disk" needs none, and copies nothing'),
    (lambda policy, host, paths: bool(paths.not_overlaid), "one of them lies on a file system that takes no overlay"),
)  # fmt: skip


def settled(policy: Policy, host: HostFacts, paths: PathFacts) -> tuple[Policy, tuple[Note, ...]]:
    """The policy with the storage that its copy-on-write directories get here. Layers on disk, which nobody has without
    asking for them, are made or refused."""
    if not is_cow(policy):
        return policy, ()
    why = next((reason for lacks, reason in NO_OVERLAY if lacks(policy, host, paths)), "")
    if is_overlaid(policy) and why and policy.storage == "memory":
        policy = replace(policy, storage="copy")
    elif not is_copied(policy) or _full(policy):
        return policy, ()
    place = "" if _full(policy) else (
        ", in $XDG_STATE_HOME/pysandbox/layers, which is where commands work: the directories themselves are not shown"
    )  # fmt: skip
    message = f"copy-on-write directories are copied for each cage, up to copy_mb{place}: {why}"
    return policy, (Note(DEGRADED, COW, message),)


def evaluate(policy: Policy, host: HostFacts) -> tuple[Note, ...]:
    """The notes of everything that is lacking; raises UnsupportedError for the first that may not be."""
    gaps = () if _full(policy) else _gaps(policy, host)
    return (*_shortfalls(policy, host), *gaps)


def _shortfalls(policy: Policy, host: HostFacts) -> Iterator[Note]:
    for row in SHORTFALLS:
        if row.lacking(policy, host):
            if _refuses(row.verdict, policy):
                raise UnsupportedError(row.lost, feature=row.feature, fix=row.fix)
            yield Note(LIMITS_NOT_ENFORCED if row.verdict == LIMIT else DEGRADED, row.key, row.lost)


def _refuses(verdict: str, policy: Policy) -> bool:
    if verdict == LIMIT:
        return policy.limits_required  # a strict policy always requires them
    return verdict == REFUSE or policy.strict


def _gaps(policy: Policy, host: HostFacts) -> Iterator[Note]:
    for key, applies, message in GAPS:
        if applies(policy, host):
            if policy.strict:
                fix = 'set isolation = "full", or leave strict out'
                raise UnsupportedError(f'isolation = "landlock" leaves open: {message}',
                                       feature="mount_namespace", fix=fix)  # fmt: skip
            yield Note(ISOLATION_GAP, key, message)


def _shows_processes(policy: Policy) -> bool:
    return any(f"{grant.path}/".startswith("/proc/") for grant in (*policy.allow, *policy.allow_write))


def _reopened(policy: Policy) -> set[str]:
    """What the filter of landlock isolation closes, and this policy asks for."""
    from pysandbox.compile.profiles.arguments import CLOSED_ON_THE_HOST

    return CLOSED_ON_THE_HOST.keys() & set(policy.allow_syscalls)


def closed_for_landlock(policy: Policy, host: HostFacts) -> Policy:
    """The policy to filter by. A file that was handed in for reading can be named again, as
    /proc/self/fd/N. Landlock keeps it from being opened for writing, but before ABI 3 it does not hear of truncate(2):
    there the call is closed by its number, unless the policy asks for it."""
    if not _closes_truncate(policy, host):
        return policy
    return replace(policy, deny_syscalls=(*policy.deny_syscalls, "truncate"))


def truncate_notes(policy: Policy, host: HostFacts) -> tuple[Note, ...]:
    if not _closes_truncate(policy, host):
        return ()
    message = (
        "truncate(2) is refused, since this kernel's Landlock does not know it (Linux 6.2); ftruncate(2) is not. "
        'syscalls.allow_extra = ["truncate"] opens it, and with it files that were handed in for reading'
    )
    return (Note(DEGRADED, "syscalls.allow_extra", message),)


def _closes_truncate(policy: Policy, host: HostFacts) -> bool:
    return _full(policy) and 0 < host.landlock_abi < TRUNCATE_ABI and "truncate" not in policy.allow_syscalls


def root_stays(policy: Policy, why: str) -> Note:
    """Outside, the cage is root: what a wall with a hole lets it reach is root's. (Landlock isolation is refused by
    strict in any case, for its gaps.)"""
    message = f"root starts this cage, and outside it keeps root's id: {why}"
    if policy.strict and _full(policy):
        raise UnsupportedError(message, feature="idmapped_mounts",
                               fix="start it as an ordinary user, or leave strict out")  # fmt: skip
    return Note(DEGRADED, "isolation", message)


def unguarded_notes(policy: Policy, names: tuple[str, ...]) -> tuple[Note, ...]:
    """Landlock isolation cannot protect single files in a granted tree: policy files and git's commands are open."""
    if not names:
        return ()
    message = f"{', '.join(names)} can be read or changed by the cage: Landlock cannot close a file in a granted tree"
    if policy.strict:
        raise UnsupportedError(message, feature="mount_namespace", fix='set isolation = "full", or leave strict out')
    return (not_coverable("filesystem.workdir", message),)
