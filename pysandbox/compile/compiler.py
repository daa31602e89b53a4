"""START HERE: Policy + HostFacts + PathFacts -> Plan. Each line of `compile_plan` is one file of this folder.

First what cannot be asked is refused. Then policy and host are settled: whom the cage is outside, what is watched, what
monitor takes out of the policy. Then come the walls that others lean on: the view of the files and the filter. `_plan`
writes the rest down, and nothing in it changes what another line has read.

Pure: equal arguments give an equal Plan. The policy must already hold the grants of `base`
(`policy.recipe.with_base`), and `paths` must be a look at this policy. Raises PolicyError for what cannot be asked,
UnsupportedError for what this host cannot do.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from pysandbox.compile import degrade, identity, landlock_only
from pysandbox.compile.absent import idle_notes, left_out_notes, refuse_absent
from pysandbox.compile.copies import copy_plan
from pysandbox.compile.cow import most_on_disk, refuse_mounts, with_uppers
from pysandbox.compile.environ import environment, uncaged_environment
from pysandbox.compile.filters import Filters, compile_filters
from pysandbox.compile.kept import refuse_protected
from pysandbox.compile.landlock import abi_of, ruleset_in_cage
from pysandbox.compile.limits import (
    cgroup_plan,
    closed_for_the_watchdog,
    limits,
    makes_memory_files,
    unheld,
    watch_plan,
)
from pysandbox.compile.monitor import enforced, late_notes, monitor_notes
from pysandbox.compile.mounts import mapped, mount_steps, own_directories, staging
from pysandbox.compile.network import namespaces, network_notes
from pysandbox.compile.notify import guarded, notify_plan, with_sockets
from pysandbox.compile.plan import LandlockPlan, MountStep, NetPlan, NotifyPlan, Plan
from pysandbox.compile.seccomp import Prebuilt, none_prebuilt
from pysandbox.compile.secrets import refuse_leaks
from pysandbox.compile.view import View, build_view
from pysandbox.note import Note
from pysandbox.policy.model import Policy
from pysandbox.policy.way_out import has_doors, scanning
from pysandbox.probe.facts import HostFacts, PathFacts
from pysandbox.shapes import NamedTuple, replace

HOSTNAME_PREFIX = "cage-"
MIB = 1 << 20
LANDLOCK_NET_ABI = 4  # rules on TCP ports, Linux 6.7

FilterCompiler = Callable[[Policy, str, NotifyPlan | None], Filters]


def compile_plan(
    policy: Policy,
    host: HostFacts,
    paths: PathFacts,
    *,
    watch: frozenset[str] = frozenset(),
    prebuilt: Prebuilt = none_prebuilt,
    compile_filter: FilterCompiler | None = None,
) -> Plan:
    """`watch`: the categories of calls that a callback of the host decides, rows of `compile.notify.CATEGORIES`.
    `prebuilt` knows filters that need not be compiled (`probe.prebuilt`). `compile_filter` stands in for
    `filters.compile_filters` in tests."""
    if not policy.caged:
        return _uncaged(policy, host, paths)
    refuse_absent(policy)
    refuse_protected(policy, paths)
    policy, copied = degrade.settled(scanning(policy), host, paths)
    # all that follows has the host as this cage has it
    host, as_root = identity.resolve_identity(policy, host, paths) if host.root else (host, ())
    notify = notify_plan(policy, host, paths, watch)  # before `enforced`: monitor watches what it does not enforce
    watched = tuple(monitor_notes(policy, host, notify)) if policy.monitor or policy.why else ()
    policy = enforced(policy) if policy.monitor else policy  # the walls are compiled from what is left
    unheld = (*idle_notes(policy), *(left_out_notes(policy) if policy.left_out else ()))
    lacking = (*as_root, *copied, *degrade.evaluate(policy, host), *network_notes(policy), *unheld, *watched)
    view = build_view(policy, paths)  # needs no other step, and is final: mounts, Landlock and notify agree on it
    _refuse_what_is_seen(policy, paths, view)
    open_guards = _check_isolation(policy, view)
    notify = notify and with_sockets(notify, view)
    confines_tcp = host.landlock_abi >= LANDLOCK_NET_ABI
    make = compile_filter or partial(compile_filters, landlock_net=confines_tcp, prebuilt=prebuilt)
    filtered = closed_for_the_watchdog(degrade.closed_for_landlock(policy, host), host)  # what no other wall holds
    filters = make(filtered, host.machine, notify)
    walls = Walls(view, filters, notify and replace(notify, verdicts=filters.verdicts))
    notes = (
        *lacking,
        *degrade.truncate_notes(policy, host),
        *(late_notes(filtered, host.machine, notify, filters) if policy.monitor else ()),
        *open_guards,
        *view.notes,
    )
    return _plan(policy, host, paths, walls, notes)


def _refuse_what_is_seen(policy: Policy, paths: PathFacts, view: View) -> None:
    """Raises SandboxCompileError for what a part of the policy cannot have in this view. Few policies have any of these
    parts, and of the others nothing is asked."""
    if policy.secrets:
        refuse_leaks(policy, paths, view)
    if policy.proxy_upstream_ca:
        from pysandbox.compile.authorities import refuse_writable_authorities

        refuse_writable_authorities(policy, paths, view)
    if paths.mounted:
        refuse_mounts(view, paths)


class Walls(NamedTuple):
    """What is compiled before the Plan is written down, because more than one part of it needs it."""

    view: View
    filters: Filters
    notify: NotifyPlan | None


def _plan(policy: Policy, host: HostFacts, paths: PathFacts, walls: Walls, notes: tuple[Note, ...]) -> Plan:
    """Every field from what is settled by now: none of these lines depends on another, but for `spaces`."""
    view, filters, notify = walls
    spaces = namespaces(policy)
    uid, gid = _ids(policy, host)
    landlock = _landlock(policy, host, paths, view)
    return Plan(
        isolation=policy.isolation,
        notes=notes,
        # process
        namespaces=spaces,
        inside_uid=uid,
        inside_gid=gid,
        unrooted=host.root == "swapped",
        hostname_prefix=HOSTNAME_PREFIX if spaces else "",
        env=environment(policy, host, paths, view),
        cwd=_cwd(policy, paths, view),
        executables=view.programs.listed if view.programs is not None else None,
        # files
        staging=staging(policy, paths, view),
        mounts=_mounts(policy, host, paths, view),
        landlock=guarded(landlock, notify, abi_of(host)) if notify is not None else landlock,
        # system calls
        seccomp=filters.whole,
        seccomp_late=filters.late,
        notify=notify,
        # network
        loopback="NET" in spaces,
        net=_net(policy, host),
        # limits
        limits=limits(policy, host),
        cgroup=cgroup_plan(policy, host),
        watch=with_uppers(watch_plan(policy, host, memfds=makes_memory_files(policy, host)), view, policy),
        layers=most_on_disk(policy),
        copies=copy_plan(policy, view) if view.copies else None,
        walltime=policy.walltime_sec,
        grace=policy.grace_sec,
        output_cap=policy.output_mb * MIB,
    )


def _uncaged(policy: Policy, host: HostFacts, paths: PathFacts) -> Plan:
    """No namespace, no filter, no limit: the caller's own world (COMP-24), with the wall time kept (WALL-04)."""
    return Plan(
        isolation="none",
        namespaces=(),
        inside_uid=-1,
        inside_gid=-1,
        hostname_prefix="",
        staging="",
        mounts=(),
        loopback=False,
        landlock=None,
        seccomp=b"",
        seccomp_late=b"",
        notify=None,
        limits=(),
        env=uncaged_environment(policy, host.env),
        cwd=paths.cwd,
        walltime=policy.walltime_sec,
        grace=policy.grace_sec,
        output_cap=policy.output_mb * MIB,
        notes=tuple(unheld(policy)),
    )


def _net(policy: Policy, host: HostFacts) -> NetPlan | None:
    """Nothing of what makes doors is loaded for a cage without one."""
    if not (has_doors(policy) or policy.ports):
        return None
    from pysandbox.compile.doors import net_plan

    return net_plan(policy, host)


def _check_isolation(policy: Policy, view: View) -> tuple[Note, ...]:
    if policy.isolation == "full":
        return ()
    landlock_only.refuse_what_needs_namespaces(policy, view)
    return degrade.unguarded_notes(policy, landlock_only.unguarded(view))


def _ids(policy: Policy, host: HostFacts) -> tuple[int, int]:
    if policy.isolation != "full":
        return -1, -1
    return {"nobody": (65534, 65534), "self": (host.uid, host.gid), "root": (0, 0)}[policy.run_as]


def _landlock(policy: Policy, host: HostFacts, paths: PathFacts, view: View) -> LandlockPlan | None:
    if policy.isolation == "full":
        return ruleset_in_cage(policy, host, paths, view)
    return landlock_only.ruleset_on_host(policy, host, view)


def _mounts(policy: Policy, host: HostFacts, paths: PathFacts, view: View) -> tuple[MountStep, ...]:
    steps = mount_steps(policy, paths, view, as_root=host.uid == 0, owns_proc=host.root == "stays")
    return mapped(steps, view) if host.root == "swapped" else steps


def _cwd(policy: Policy, paths: PathFacts, view: View) -> str:
    """The caller's directory where the cage shows it, else the root."""
    real = paths[paths.cwd].real
    own = policy.isolation == "full" and (real == "/tmp" or real in own_directories(policy, paths, view))
    return real if own or view.shows(real) else "/"
