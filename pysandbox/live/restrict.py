"""Tightening the limits of a cage that runs: by its cgroup where it has one with the controller, else by the watchdog.
Nothing here can loosen: a value that is higher than the one in force changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable

from pysandbox.compile.limits import MIB, OWN_TMPFS
from pysandbox.compile.plan import Plan, Setting, WatchPlan
from pysandbox.live.tree import ProcessTree
from pysandbox.shapes import TYPE_CHECKING

if TYPE_CHECKING:
    from pysandbox.live.cgroup import CageCgroup
    from pysandbox.live.init import CageInit
    from pysandbox.live.watchdog import Watchdog


def restrict_memory(live: CageInit, plan: Plan, guard: Callable[[], Watchdog], megabytes: int) -> None:
    """Holds the cage to so many MiB, what it has already included. Raises OSError."""
    live.tightened["memory"] = megabytes
    if live.cgroup is not None and live.cgroup.holds("memory"):
        _lower(live.cgroup, "memory.max", megabytes * MIB)
        return
    full = plan.isolation == "full"
    watch = WatchPlan(memory=megabytes * MIB, tmpfs=OWN_TMPFS if full else (), memfds=True)
    if live.tree is None:
        own_proc, own_net = ("PID" in plan.namespaces, "NET" in plan.namespaces)
        live.tree = ProcessTree(live.pid, watch, own_proc=own_proc, own_net=own_net)
    live.tree.cover(watch)  # it may have been opened for another limit, that looks at less
    guard().add(live, watch)


def restrict_pids(live: CageInit, most: int) -> bool:
    """Holds the cage to so many processes and threads; False where its cgroup cannot. Raises OSError."""
    if live.cgroup is None or not live.cgroup.holds("pids"):
        return False
    _lower(live.cgroup, "pids.max", most + 1)  # cage-init is one of them
    live.tightened["pids"] = most
    return True


def _lower(cgroup: CageCgroup, file: str, value: int) -> None:
    now = cgroup.limit(file)
    if now is None or value < now:
        cgroup.apply((Setting(file, str(value)),))
