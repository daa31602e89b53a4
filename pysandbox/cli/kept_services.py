"""What serves a cage besides its command, in a kept plan: with which services a run may begin before Python is there.

The launcher makes the doors, takes the listener and adds up the memory (csrc/launcher/services.h); whoever decides,
answers or looks closer comes with Python (`cli.beside`), when the first call of it waits. So what is kept is what the
kernel is to be told, and no rule. A part of these plans that is not listed here means that the next run is Python's
from the start.
"""

from __future__ import annotations

import os

from pysandbox._native import lib
from pysandbox.policy.model import options
from pysandbox.sha256 import sha256
from pysandbox.shapes import MISSING, TYPE_CHECKING, Any, fields
from pysandbox.shapes.pattern import pattern

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pysandbox.compile.plan import NetPlan, NotifyPlan, Plan, WatchPlan
    from pysandbox.launch.kept import KeptFile
    from pysandbox.policy.model import Policy

# Calls that a program makes only where it uses the network: one that every start makes would wait for Python at once.
CLASSES = frozenset(("BIND", "CONNECT", "LISTEN", "SENDMSG", "SENDTO"))
ACTIONS = frozenset(("LIST",))

# What Python reads again when it comes, and what the launcher is told; of what is in neither, nothing may be asked.
OF_CALLS = frozenset((
    "calls", "actions", "endpoints", "no_external_reach", "abstract", "refuse_control", "lenient", "grants", "named",
    "landlock_denies_bind",
))  # fmt: skip
OF_THE_NETWORK = frozenset(("doors", "routes", "redirect", "hosts", "endpoints", "loopback_ports", "ipv6"))
OF_A_HOST = frozenset(("pattern", "ports", "direct", "private"))
OF_THE_WATCH = frozenset(("memory", "tmpfs"))
KINDS = frozenset(("dns", "socks", "http", "tcp", "lost", "refused"))  # of doors
NOTHING = (None, False, "", b"", ())
PLAIN = pattern(r"(?a)[\w./-]+")  # a path that the launcher may write down as it is


def has_services(plan: Plan) -> bool:
    return (plan.watch, plan.notify, plan.net, plan.cgroup) != (None, None, None, None)


def may_come_later(plan: Plan) -> bool:
    """Whether what serves a cage of this plan is all of the kind that can wait."""
    if not has_services(plan):
        return True
    whole = {"USER", "PID", "NET"} <= {*plan.namespaces}
    return whole and can_be_made(plan) and _watches(plan.watch) and _decides(plan.notify) and _has_doors(plan.net)


def holds_only(part: Any, known: frozenset[str]) -> bool:
    """Whether nothing is asked by what is not `known`: it has its default, or is empty where it has none."""
    return all(each.name in known or _asks_nothing(getattr(part, each.name), each.default) for each in fields(part))


def _asks_nothing(value: Any, default: Any) -> bool:
    return bool(value == default) if default is not MISSING else value in NOTHING


def _watches(watch: WatchPlan | None) -> bool:
    if watch is None:
        return True
    plain = all(PLAIN.fullmatch(path) for path in watch.tmpfs)
    return plain and holds_only(watch, OF_THE_WATCH) and len(watch.tmpfs) <= lib.PSB_KEPT_MOST_WATCHED


def _decides(notify: NotifyPlan | None) -> bool:
    if notify is None:
        return True
    plain = all(name in CLASSES and action in ACTIONS for name, action in notify.actions)
    return plain and notify.programs is None and holds_only(notify, OF_CALLS)


def _has_doors(net: NetPlan | None) -> bool:
    if net is None:
        return True
    from pysandbox.launch.netns import doors_inside

    inside = doors_inside(net)
    few = len(inside) <= lib.PSB_KEPT_MOST_DOORS and all(door.kind in KINDS for door in inside)
    plain = all(holds_only(host, OF_A_HOST) for host in net.hosts)
    return few and plain and len(inside) == len(net.doors) and holds_only(net, OF_THE_NETWORK)


def served_digest(policy: Policy, plan: Plan) -> str:
    """SHA-256 (hex) of all that a cage is served by. Not of the files in it: that is settled when its command is
    ordered, and the command may have made some that the next cage is kept from."""
    rules = [(field.name, getattr(policy, field.name)) for field, of in options() if of.section != "filesystem"]
    said = repr((rules, plan.isolation, plan.namespaces, plan.notify, plan.net, plan.watch, plan.cgroup))
    return str(sha256(said.encode()).hexdigest())


def keep_services(file: KeptFile, plan: Plan) -> None:
    """What the launcher is to make, to take and to watch."""
    watch, net = plan.watch, plan.net
    file.head.memory = watch.memory or 0 if watch is not None else 0
    file.head.flags |= lib.PSB_KEPT_LISTENS if plan.notify is not None else 0
    file.head.flags |= lib.PSB_KEPT_OWN_NET if "NET" in plan.namespaces else 0
    file.texts(lib.PSB_KEPT_WATCHED, watch.tmpfs if watch is not None else ())
    file.put(lib.PSB_KEPT_ROUTES, net.routes if net is not None else b"")
    file.put(lib.PSB_KEPT_REDIRECT, net.redirect if net is not None else b"")
    file.rows(lib.PSB_KEPT_DOORS, "psb_kept_door", list(_doors(file, net)) if net is not None else [])


def _doors(file: KeptFile, net: NetPlan) -> Iterator[tuple[object, ...]]:
    from pysandbox.launch.netns import described_socket, doors_inside

    for door in doors_inside(net):
        made = described_socket(door.protocol, door.address, door.port)
        kind, name = file.text(f"{door.kind}/{door.protocol}"), file.text(made.name)
        yield kind, name, made.family, made.type, made.port, made.backlog, made.address.ljust(16, b"\0")


# ---- the cgroup of a cage: what the launcher makes before it (csrc/launcher/cgroup.h) --------------------------
#
# It makes a group below one that hands its controllers down already, and bears the cage there. What needs more than
# that - processes that move out of the way first, a scope from systemd, a cage that is moved after its birth - is
# Python's.


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
