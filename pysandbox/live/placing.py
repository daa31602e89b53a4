"""What a new cage needs of the host between its birth and its first order: a place in a cgroup that it could not be
born in, and what the watchdog will look at. No command has run yet, so nothing escapes what comes here.
"""

from __future__ import annotations

from pysandbox.compile.plan import CgroupPlan, Plan
from pysandbox.errors import StartError
from pysandbox.live.init import CageInit


def place_in_cgroup(live: CageInit, plan: Plan, *, born_inside: bool) -> None:
    """Where the plan has a group, or something to be watched. Raises StartError; the cage is closed then."""
    try:
        if plan.cgroup is not None and not born_inside:
            _place(live, plan.cgroup)
        if plan.watch is not None:
            from pysandbox.live.tree import ProcessTree

            live.tree = ProcessTree(
                live.pid, plan.watch, own_proc="PID" in plan.namespaces, own_net="NET" in plan.namespaces
            )
    except StartError:
        live.close()
        raise
    except OSError as error:
        live.close()
        hint = "the cage could not be placed under its limits; try again"
        raise StartError("cgroup", error.errno or 0, error.filename, hint) from None


def _place(live: CageInit, wanted: CgroupPlan) -> None:
    if live.cgroup is not None:
        live.cgroup.adopt(live.pid)
        return
    from pysandbox.live.cgroup import CageCgroup
    from pysandbox.live.systemd import PROPERTIES, enter_scope

    enter_scope(wanted.bus, f"pysandbox-{live.id}.scope", wanted.settings, live.pid)
    live.cgroup = CageCgroup.of(live.pid, wanted.parent)
    live.cgroup.apply(setting for setting in wanted.settings if setting.file not in PROPERTIES)
