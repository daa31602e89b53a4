"""The cgroup of a cage in a kept plan: what the launcher is to make before the cage (csrc/launcher/cgroup.h).

It makes a group below one that hands its controllers down already, and bears the cage there. What needs more than that
- processes that move out of the way first, a scope from systemd, a cage that is moved after its birth - is Python's.
"""

from __future__ import annotations

import os

from pysandbox._native import lib
from pysandbox.shapes import TYPE_CHECKING

if TYPE_CHECKING:
    from pysandbox.compile.plan import Plan
    from pysandbox.launch.kept import KeptFile


def can_be_made(plan: Plan) -> bool:
    group = plan.cgroup
    return group is None or (group.way == "below" and group.born_inside)


def keep_group(file: KeptFile, plan: Plan) -> None:
    group = plan.cgroup
    file.rows(lib.PSB_KEPT_GROUP, "psb_kept_place", [place(file, group.parent)] if group is not None else [])
    file.texts(lib.PSB_KEPT_HANDED, group.controllers if group is not None else ())
    settings = group.settings if group is not None else ()
    file.rows(lib.PSB_KEPT_SETTINGS, "psb_kept_setting",
              [(file.text(each.file), file.text(each.value), each.optional) for each in settings])  # fmt: skip
    file.name(lib.PSB_TEXT_OWN_GROUP, _own_group() if group is not None else "")


def place(file: KeptFile, path: str) -> tuple[int, ...]:
    """Where a directory really is, and whose; not what is in it."""
    where = file.text(path), file.text(os.path.realpath(path))
    try:
        found = os.stat(path)
    except OSError:
        return *where, 0, 0, 0, 0, 0
    return *where, 1, found.st_mode, found.st_dev, found.st_ino, found.st_uid


def _own_group() -> str:
    """Ours, which decides where a group may be made."""
    from pysandbox.probe.cgroups import own_group

    return own_group("") or ""
