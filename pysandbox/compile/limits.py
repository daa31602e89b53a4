"""What holds each limit: one table from a limit to the kernel's controller, or to what stands in for it.

    limit          with its cgroup v2 controller     without
    memory_mb      memory.max, no swap               the watchdog: samples of the whole cage; RLIMIT_DATA as a backstop
    max_pids       pids.max                          RLIMIT_NPROC in the cage's own user namespace; where there is none,
                                                     and for a cage that is root outside, which it does not
                                                     count, the watchdog
    cpu_percent    cpu.max                           the watchdog: stops and continues the cage
    cpu_shares     cpu.weight                        nothing: nice weighs processes, not cages
    tmp_mb         (the size of each tmpfs)          the watchdog, where scratch is a directory of the host
    cow_mb         (the size of a memory file system) the watchdog, where storage = "disk"
    write_mb       (none counts in time)             the watchdog, on every host; RLIMIT_FSIZE as a backstop

`degrade` says which of the right column is a weakening. The limits of each process are rlimits on every host; soft and
hard are equal, so that none can be raised again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from pysandbox.compile import seccomp
from pysandbox.compile.notes import LIMITS_NOT_ENFORCED
from pysandbox.compile.plan import CgroupPlan, Limit, Plan, Setting, WatchPlan
from pysandbox.note import Note
from pysandbox.policy.model import Policy
from pysandbox.policy.tighter import USUAL_PROCESSES
from pysandbox.probe.facts import HostFacts
from pysandbox.shapes import dataclass, replace

PIDS_ROOM = 64  # by which RLIMIT_NPROC is wider than what else holds max_pids
MIB = 1 << 20
GIB = 1 << 30
TMPFS_ROOM_MB = 256  # what is written between two looks of the watchdog, and some
CPU_PERIOD_US = 100_000
PAGE = 4096  # the smallest there is; a larger one only means more inodes for each
FEWEST_INODES = 4096  # the root, /dev and what is bound there take some dozens
MOST_SIGNALS = 1024  # waiting, timers among them, in a whole cage; the kernel counts them for its user, too, who may
# have some 4,000 for each GiB of the machine
MOST_QUEUED = 204_800  # bytes in POSIX queues: a quarter of what the kernel gives a user
MOST_LOCKED = 4 * MIB  # locked by a process, pinned on its way through a socket (MSG_ZEROCOPY), or in segments that all
# of a user's share (SHM_LOCK): half of what the kernel gives a user
OWN_TMPFS = ("/", "/tmp", "/dev/shm")


def _file_size(policy: Policy) -> int | None:
    """No file is larger than all that may be written: it bounds what one process does between two looks."""
    sizes = [size for size in (policy.file_size_gb * GIB, (policy.write_mb or 0) * MIB) if size]
    return min(sizes, default=None)


LIMITS: tuple[tuple[str, Callable[[Policy], int | None]], ...] = (
    ("AS", lambda policy: policy.address_space_gb * GIB or None),
    ("NOFILE", lambda policy: policy.open_files),
    ("FSIZE", _file_size),
    ("CORE", lambda policy: 0),
    ("SIGPENDING", lambda policy: MOST_SIGNALS),
    ("MSGQUEUE", lambda policy: MOST_QUEUED),
    ("MEMLOCK", lambda policy: MOST_LOCKED),
)


@dataclass(frozen=True, slots=True)
class CgroupLimit:
    """One limit of a whole cage: who asks for it, and the controller whose files hold it."""

    key: str
    controller: str
    asked: Callable[[Policy], bool]
    settings: Callable[[Policy], tuple[Setting, ...]]


def _memory(policy: Policy) -> tuple[Setting, ...]:
    return (
        Setting("memory.max", str((policy.memory_mb or 0) * MIB)),
        Setting("memory.swap.max", "0", optional=True),  # a kernel without swap accounting has no such file
        Setting("memory.oom.group", "1", optional=True),  # 4.19: a cage without one of its processes is of no use
    )


def _cpu_quota(policy: Policy) -> tuple[Setting, ...]:
    return (Setting("cpu.max", f"{(policy.cpu_percent or 0) * CPU_PERIOD_US // 100} {CPU_PERIOD_US}"),)


HELD = (
    CgroupLimit("resources.memory_mb", "memory", lambda policy: policy.memory_mb is not None, _memory),
    CgroupLimit("process.max_pids", "pids", lambda policy: policy.max_pids is not None,
         lambda policy: (Setting("pids.max", str((policy.max_pids or 0) + 1)),)),
    CgroupLimit("resources.cpu_percent", "cpu", lambda policy: policy.cpu_percent is not None, _cpu_quota),
    CgroupLimit("resources.cpu_shares", "cpu", lambda policy: policy.cpu_shares is not None,
         lambda policy: (Setting("cpu.weight", str(policy.cpu_shares)),)),
)  # fmt: skip


def limits(policy: Policy, host: HostFacts) -> tuple[Limit, ...]:
    """The rlimits of each process."""
    found = (Limit("NPROC", _nproc(policy, host)), *(Limit(resource, value(policy)) for resource, value in LIMITS))
    watched = watched_memory(policy, host)
    if watched is None:
        return found
    # Private memory of one process. Wide, since a runtime may map far more than it ever touches; it bounds what a
    # process can take between two samples.
    return (*found, Limit("DATA", watched + GIB))


def _nproc(policy: Policy, host: HostFacts) -> int:
    """RLIMIT_NPROC counts every process of the user id in the cage's user namespace (5.14), the cage's init among them.
    The kernel asks it before pids.max, which alone counts what it refuses; without a user namespace of the cage's own
    it counts what the user runs elsewhere. So it holds max_pids only where nothing better does."""
    if policy.max_pids is None or pids_held_by(policy, host) != "rlimit":
        return max(USUAL_PROCESSES, (policy.max_pids or 0) + PIDS_ROOM)
    return policy.max_pids + 1


def pids_held_by(policy: Policy, host: HostFacts) -> str:
    """What holds max_pids: "cgroup", "rlimit" or "watchdog"."""
    if "pids" in host.cgroup.controllers:
        return "cgroup"
    return "rlimit" if policy.isolation == "full" and (host.uid != 0 or host.root == "swapped") else "watchdog"


def by_controller(held: CgroupLimit, host: HostFacts) -> bool:
    return held.controller in host.cgroup.controllers


def cgroup_plan(policy: Policy, host: HostFacts) -> CgroupPlan | None:
    """A group for every cage with a limit on the whole of it; also without a controller it counts and kills."""
    asked = [held for held in HELD if held.asked(policy)]
    if not asked or not host.cgroup.parent:
        return None
    ours = [held for held in asked if by_controller(held, host)]
    return CgroupPlan(
        host.cgroup.parent,
        host.cgroup.way,
        tuple(dict.fromkeys(held.controller for held in ours)),
        tuple(setting for held in ours for setting in held.settings(policy)),
        host.cgroup.born_inside,
        host.cgroup.bus,
    )


def watched_memory(policy: Policy, host: HostFacts) -> int | None:
    """Bytes to which the watchdog holds a cage; None where a controller does, or no limit was asked for."""
    by_watchdog = policy.memory_mb is not None and "memory" not in host.cgroup.controllers
    return (policy.memory_mb or 0) * MIB if by_watchdog else None


def watch_plan(policy: Policy, host: HostFacts, *, memfds: bool) -> WatchPlan | None:
    memory, cpu, pids = watched_memory(policy, host), None, None
    if policy.cpu_percent is not None and "cpu" not in host.cgroup.controllers:
        cpu = policy.cpu_percent / 100
    if policy.max_pids is not None and pids_held_by(policy, host) == "watchdog":
        pids = policy.max_pids
    scratch = policy.tmp_mb * MIB if watches_scratch(policy) else None
    written = policy.write_mb * MIB if policy.write_mb is not None else None
    if (memory, cpu, scratch, pids, written) == (None,) * 5:
        return None
    own = OWN_TMPFS if policy.isolation == "full" and memory is not None else ()
    return WatchPlan(memory, cpu, scratch, own, memfds and memory is not None, pids, written)


# What holds a limit where no controller does.
STAND_INS: Mapping[str, str] = {"memory_mb": "watchdog", "max_pids": "rlimit", "cpu_percent": "watchdog"}


def held_by(policy: Policy, plan: Plan) -> dict[str, str]:
    """What holds each limit of the whole cage that was asked for: "cgroup", "watchdog", "rlimit" or "nothing"."""
    controllers = plan.cgroup.controllers if plan.cgroup is not None else ()
    lost = {note.key for note in plan.notes if note.event == LIMITS_NOT_ENFORCED}
    found = {}
    for held in HELD:
        name = held.key.rpartition(".")[2]
        if held.asked(policy):
            stand_in = "nothing" if held.key in lost else STAND_INS.get(name, "nothing")
            if name == "max_pids" and plan.watch is not None and plan.watch.pids is not None:
                stand_in = "watchdog"
            found[name] = "cgroup" if held.controller in controllers else stand_in
    if policy.write_mb is not None:
        found["write_mb"] = "watchdog"
    return found


def unheld(policy: Policy) -> Iterator[Note]:
    """For a command without a cage: a note for each limit that was asked for and that nothing enforces."""
    for held in HELD:
        if held.asked(policy):
            name = held.key.rpartition(".")[2]
            yield Note(LIMITS_NOT_ENFORCED, held.key, f"without a cage nothing holds {name}")
    if policy.write_mb is not None:
        yield Note(LIMITS_NOT_ENFORCED, "resources.write_mb", "without a cage nothing holds write_mb")


def watches_scratch(policy: Policy) -> bool:
    """Whether the cage's scratch is a directory of the host and its size was asked for; a tmpfs has it by itself."""
    return (policy.isolation != "full" or policy.state == "scratch") and "tmp_mb" in policy.explicit


def makes_memory_files(policy: Policy, host: HostFacts) -> bool:
    """Whether commands may call memfd_create: its pages show in no process until they are mapped."""
    if policy.memory_mb is None:
        return False
    return seccomp.makes_memory_files(seccomp.choose(policy), host.machine)


def closed_for_the_watchdog(policy: Policy, host: HostFacts) -> Policy:
    """The policy to filter by: a System V segment that is detached, a queue or a set of semaphores (of which one holds
    two MiB, and a namespace 32,000) belongs to no process that could be looked at."""
    if watched_memory(policy, host) is None:
        return policy
    closed = seccomp.SYSV_MEMORY - {*policy.allow_syscalls}
    return replace(policy, deny_syscalls=(*policy.deny_syscalls, *sorted(closed)))


def tmpfs_options(policy: Policy) -> str:
    """An inode of a file without pages is memory that no size counts: there are as many as the size has pages."""
    size = tmpfs_mb(policy)
    return f"size={size}m,nr_inodes={max(size * (MIB // PAGE), FEWEST_INODES)}"


def tmpfs_mb(policy: Policy) -> int:
    """The size of each tmpfs of the cage. What lies in it is memory of the cage, and whoever fills it beyond memory_mb
    is out of memory, which the watchdog has to have the time to see: a tmpfs of just that size would be full first."""
    return policy.tmp_mb if policy.memory_mb is None else min(policy.tmp_mb, policy.memory_mb + TMPFS_ROOM_MB)
