"""`confine(policy)`: the calling process lays the static part of a policy on itself, for good.

Landlock, a filter of system calls, no capabilities, no_new_privs, its own limits: what a process can hold itself to,
with all that it starts from then on. Whatever needs somebody else is refused by name (`compile.confine`). What the
process has open already, and whoever it has started before, are not bound; `Confinement` names both.
"""

from __future__ import annotations

import os

from pysandbox.compile.confine import ConfinementPlan, compile_confinement, refuse_what_it_cannot_hold
from pysandbox.launch import confine as laid
from pysandbox.note import Note, weaker
from pysandbox.policy.expand import expand
from pysandbox.policy.model import Policy, options
from pysandbox.policy.narrow import narrow
from pysandbox.policy.recipe import with_base
from pysandbox.policy.user_home import home
from pysandbox.probe import kernel
from pysandbox.probe.facts import HostFacts
from pysandbox.probe.kept import protected_directories
from pysandbox.probe.paths import stat_paths
from pysandbox.probe.prebuilt import prebuilt_filter
from pysandbox.records.registry import private_paths
from pysandbox.shapes import TYPE_CHECKING, dataclass, replace

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["Confinement", "confine"]

_in_force: list[Policy] = []  # of this process, which cannot leave it: a copy by fork(2) is bound by it as well


@dataclass(frozen=True, slots=True)
class Confinement:
    """What holds the calling process from now on, and what it does not hold."""

    landlock_abi: int
    read: tuple[str, ...]
    """What can be read, and executed unless `allow_execve` says otherwise."""
    write: tuple[str, ...]
    network: str
    """"none", or "direct": the host's, not confined."""
    limits: tuple[tuple[str, int], ...]
    """RLIMIT names without their prefix, in the kernel's units."""
    notes: tuple[Note, ...]
    """What Landlock alone leaves open, the widest first."""
    descriptors: tuple[tuple[int, str], ...]
    """What was open before, but for standard streams: it stays usable as it was opened."""
    children: tuple[int, ...]
    """The processes that were started before: they are not confined, and cannot be signalled any more."""


def confine(policy: Policy | str | None = None) -> Confinement:
    """Confines the calling process to `policy`, or to the recipe of that name, with every thread of it and everything
    that it will start.

    There is no way back, and a second call may only narrow. Raises PolicyError (SandboxCompileError: an option that a
    process cannot hold itself to), UnsupportedError, and ConfineError: other threads run that this kernel's Landlock
    would leave out, or a step failed.
    """
    if policy is not None and not isinstance(policy, Policy):
        from pysandbox.launcher import policy_of

        policy = policy_of(policy, None)
    wanted = policy if policy is not None else Policy()
    refuse_what_it_cannot_hold(wanted)
    cwd = os.getcwd()
    full = with_base(expand(replace(wanted, isolation="landlock"), env=os.environ, cwd=cwd, home=home()))
    if _in_force:
        narrow(_in_force[-1], {each.name: getattr(full, each.name) for each, _ in options()})
    host = _facts()
    paths = stat_paths(full, cwd=cwd, kept=protected_directories(audit=(), registry=private_paths()), written=())
    plan = compile_confinement(full, host, paths, prebuilt_filter)
    told = _told(plan, full, host.landlock_abi)  # afterwards /proc may be closed
    laid.confine(plan)
    _in_force.append(full)
    return told


def has_confined_itself() -> bool:
    return bool(_in_force)


def _facts() -> HostFacts:
    """What confinement depends on, and no more: a look at namespaces and cgroups would be in vain below a filter."""
    return HostFacts(
        kernel=kernel.version(),
        machine=os.uname().machine,
        uid=os.geteuid(),
        gid=os.getegid(),
        landlock_abi=kernel.landlock_abi(),
        seccomp_filter=kernel.works("SECCOMP_FILTER"),
        user_namespaces=False,
        network_namespaces=False,
        mount_setattr=False,
        user_notif=False,
        wait_killable=False,
        proc_mountable=False,
    )


def _told(plan: ConfinementPlan, policy: Policy, abi: int) -> Confinement:
    rules = plan.landlock.rules
    return Confinement(
        landlock_abi=abi,
        read=tuple(rule.path for rule in rules if not {"READ_FILE", "READ_DIR"}.isdisjoint(rule.access)),
        write=tuple(rule.path for rule in rules if "WRITE_FILE" in rule.access),
        network="direct" if policy.egress == "direct" else "none",
        limits=tuple((limit.resource, limit.value) for limit in plan.limits if limit.value is not None),
        notes=weaker(plan.notes),
        descriptors=tuple(_descriptors()),
        children=_children(),
    )


def _descriptors() -> Iterator[tuple[int, str]]:
    for name in sorted(_listed("/proc/self/fd"), key=int):
        if int(name) > 2:
            try:
                yield int(name), os.readlink(f"/proc/self/fd/{name}")
            except OSError:  # that of the listing itself
                continue


def _children() -> tuple[int, ...]:
    found: list[int] = []
    for thread in _listed("/proc/self/task"):
        try:
            with open(f"/proc/self/task/{thread}/children", encoding="ascii") as children:
                found += map(int, children.read().split())
        except OSError:  # a kernel without CONFIG_PROC_CHILDREN
            continue
    return tuple(sorted(found))


def _listed(directory: str) -> list[str]:
    """Empty where /proc is closed, as below an earlier domain."""
    try:
        return os.listdir(directory)
    except OSError:
        return []
