"""START HERE: Policy + HostFacts + PathFacts -> Plan. Each line below is one file of this folder.

Pure: equal arguments give an equal Plan. The policy must already hold the grants of `base`
(`policy.recipe.with_base`), and `paths` must be a look at this policy. Raises PolicyError for what cannot be asked,
UnsupportedError for what this host cannot do.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from pysandbox.compile import degrade, exec_list, identity, landlock_only
from pysandbox.compile.absent import idle_notes, refuse_absent
from pysandbox.compile.doors import net_plan
from pysandbox.compile.environ import environment, uncaged_environment
from pysandbox.compile.filters import Filters, compile_filters
from pysandbox.compile.kept import refuse_kept
from pysandbox.compile.landlock import abi_of, second_wall
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
from pysandbox.compile.plan import LandlockPlan, Note, NotifyPlan, Plan
from pysandbox.compile.view import View, see
from pysandbox.policy.model import Policy
from pysandbox.probe.facts import HostFacts, PathFacts

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
    compile_filter: FilterCompiler | None = None,
) -> Plan:
    """`watch`: the categories of calls that a callback of the host decides, rows of `compile.notify.CATEGORIES`.
    `compile_filter` stands in for `filters.compile_filters` in tests."""
    if not policy.caged:
        return _uncaged(policy, host, paths)
    refuse_absent(policy)
    refuse_kept(policy, paths)
    host, as_root = identity.settle(policy, host, paths)
    notify = notify_plan(policy, host, paths, watch)
    watched = tuple(monitor_notes(policy, host, notify))
    policy = enforced(policy)
    lacking = (*degrade.weigh(policy, host), *network_notes(policy), *idle_notes(policy), *watched)
    view = see(policy, paths)
    notify = with_sockets(notify, view)
    exec_list.settle(policy, view)
    open_guards = _check_isolation(policy, view)
    uid, gid = _ids(policy, host)
    spaces = namespaces(policy)
    mounts = mount_steps(policy, paths, view, as_root=host.uid == 0)
    filters = (compile_filter or _shipped_filter(host))(_as_filtered(policy, host), host.machine, notify)
    if notify is not None:
        notify = replace(notify, verdicts=filters.verdicts)
    return Plan(
        isolation=policy.isolation,
        namespaces=spaces,
        inside_uid=uid,
        inside_gid=gid,
        hostname_prefix=HOSTNAME_PREFIX if spaces else "",
        staging=staging(policy, paths, view),
        mounts=mapped(mounts, view) if host.root == "swapped" else mounts,
        loopback="NET" in spaces,
        landlock=guarded(_landlock(policy, host, paths, view), notify, abi_of(host)),
        seccomp=filters.whole,
        seccomp_late=filters.late,
        notify=notify,
        limits=limits(policy, host),
        env=environment(policy, host, paths, view),
        cwd=_cwd(policy, paths, view),
        walltime=policy.walltime_sec,
        grace=policy.grace_sec,
        output_cap=policy.output_mb * MIB,
        notes=(
            *as_root,
            *lacking,
            *degrade.truncate_notes(policy, host),
            *late_notes(policy, filters),
            *open_guards,
            *view.notes,
        ),
        cgroup=cgroup_plan(policy, host),
        watch=watch_plan(policy, host, memfds=makes_memory_files(policy, host)),
        executables=view.programs.listed if view.programs is not None else None,
        net=net_plan(policy, host),
        unrooted=host.root == "swapped",
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
        return second_wall(policy, host, paths, view)
    return landlock_only.first_wall(policy, host, view)


def _as_filtered(policy: Policy, host: HostFacts) -> Policy:
    """The policy as the filter is made from it: with the calls closed that nothing else holds on this host."""
    return closed_for_the_watchdog(degrade.closed_for_landlock(policy, host), host)


def _shipped_filter(host: HostFacts) -> FilterCompiler:
    return partial(compile_filters, landlock_net=host.landlock_abi >= LANDLOCK_NET_ABI)


def _cwd(policy: Policy, paths: PathFacts, view: View) -> str:
    """The caller's directory where the cage shows it, else the root."""
    real = paths[paths.cwd].real
    own = policy.isolation == "full" and (real == "/tmp" or real in own_directories(policy, paths, view))
    return real if own or view.shows(real) else "/"
