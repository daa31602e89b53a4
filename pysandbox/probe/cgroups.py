"""Where in the cgroup v2 tree this caller may make the groups of its cages, and what they can then hold.

Reads; changes nothing. A group can be made below the caller's own or one above it, as far as they were handed to the
caller; the kernel's rules (cgroup-v2.rst: top-down, no internal processes, delegation containment) and systemd's (one
writer for each part of the tree) decide which. `launch.cgroup` acts on the answer, `pysandbox check` prints it.
"""

from __future__ import annotations

import os

from pysandbox.probe.facts import CgroupFacts
from pysandbox.shapes import dataclass, replace

WANTED = ("cpu", "memory", "pids")  # what the limits of a cage are made of
MARK = "user.delegate"  # the extended attribute systemd (251) sets on what it hands over
OTHER_SYSTEMD = "user@"  # handed over to the user's own systemd, not to us


@dataclass(frozen=True, slots=True)
class CgroupDirectory:
    """One directory of the tree, as it is now."""

    path: str
    available: frozenset[str]  # controllers it could hand down
    enabled: frozenset[str]  # controllers it does hand down
    is_root: bool
    occupied: bool
    writable: bool

    @property
    def usable(self) -> frozenset[str]:
        """Controllers that a group below it can have: a group with processes of its own hands down nothing new."""
        return self.available if self.is_root or not self.occupied else self.enabled


def find_cgroup(root: str = "", *, pid: int | None = None, uid: int | None = None) -> CgroupFacts:
    """`root` stands before every path, for a pretended host."""
    mount, own = _mount(root), own_group(root)
    if mount is None:
        return CgroupFacts(reason="no cgroup v2 tree is mounted")
    if own is None:
        return CgroupFacts(reason="this process is in no cgroup v2 group")
    top, point = mount
    if own != top and not own.startswith(f"{top.rstrip('/')}/"):
        return CgroupFacts(reason=f"the group of this process, {own}, is outside of what is mounted on {point}")
    inside = own[len(top.rstrip("/")) :].strip("/")
    groups = _reach(root, point, inside)
    if groups:
        found = _choose(root, groups, os.getpid() if pid is None else pid)
    else:
        found = CgroupFacts(reason=f"{_join(point, inside)} was not handed to this user")
    return _by_systemd(root, point, found, os.geteuid() if uid is None else uid)


def _by_systemd(root: str, point: str, found: CgroupFacts, uid: int) -> CgroupFacts:
    """What systemd would make for this user, where that is more than can be had directly, or disturbs less."""
    if not os.path.isdir(f"{root}/run/systemd/system") or (
        len(found.controllers) == len(WANTED) and found.way == "below"
    ):
        return found
    manager = point if uid == 0 else f"{point}/user.slice/user-{uid}.slice/user@{uid}.service"
    bus = "/run/dbus/system_bus_socket" if uid == 0 else f"/run/user/{uid}/bus"
    usable = frozenset(_read(f"{root}{manager}/cgroup.controllers").split())
    if not os.path.exists(root + bus) or len(usable & frozenset(WANTED)) < len(found.controllers):
        return found
    from importlib.util import find_spec

    if find_spec("jeepney") is None:
        return replace(found, reason=f"{found.reason}; pip install 'pysandbox[systemd]' to ask systemd for scopes")
    facts = _facts(CgroupDirectory(point, usable, usable, True, False, True), usable, "systemd", frozenset(WANTED))
    return replace(facts, bus=root + bus)


def _choose(root: str, groups: list[CgroupDirectory], pid: int) -> CgroupFacts:
    """The nearest group that can hand down all we want; else our own, left for a leaf; else the best there is."""
    wanted = frozenset(WANTED)
    own, best = groups[0], max(groups, key=lambda group: len(group.usable & wanted))
    if not wanted <= best.usable and len(own.available & wanted) > len(best.usable & wanted):
        if _only_ours(root + own.path, root, pid):
            return _facts(own, own.available, "leave", wanted)
        missing = ", ".join(sorted((own.available & wanted) - best.usable))
        reason = (
            f"{own.path} has processes of its own, so the kernel hands no controller ({missing}) to groups below it; "
            f"start this program in a group of its own: mkdir {own.path}/app; echo PID > {own.path}/app/cgroup.procs"
        )
        return _facts(best, best.usable, "below", wanted, reason)
    return _facts(best, best.usable, "below", wanted)


def _facts(
    group: CgroupDirectory, usable: frozenset[str], way: str, wanted: frozenset[str], reason: str = ""
) -> CgroupFacts:
    controllers = tuple(sorted(usable & wanted))
    if not reason and len(controllers) < len(wanted):
        reason = f"{group.path} has no controller {', '.join(sorted(wanted - usable))}"
    return CgroupFacts(group.path, controllers, way, reason)


def _mount(root: str) -> tuple[str, str] | None:
    """(the directory of the tree that is mounted, where) of the first cgroup v2 mount."""
    for line in _read(f"{root}/proc/self/mountinfo").splitlines():
        left, _, right = line.partition(" - ")
        fields = left.split()
        if right.split()[:1] == ["cgroup2"] and len(fields) > 4:
            return fields[3], fields[4]
    return None


def own_group(root: str) -> str | None:
    lines = _read(f"{root}/proc/self/cgroup").splitlines()
    return next((line[3:] for line in lines if line.startswith("0::/")), None)


def _reach(root: str, point: str, own: str) -> list[CgroupDirectory]:
    """The caller's own group and those above it that were handed to the caller, nearest first."""
    managed = os.path.isdir(f"{root}/run/systemd/system")
    found: list[CgroupDirectory] = []
    parts = [part for part in own.split("/") if part]
    for depth in range(len(parts), -1, -1):
        group = _group(root, _join(point, *parts[:depth]))
        if not group.writable:
            break
        found.append(group)
        if managed and _is_marked(root + group.path):
            return [] if depth and parts[depth - 1].startswith(OTHER_SYSTEMD) else found
    return [] if managed else found


def _group(root: str, path: str) -> CgroupDirectory:
    real = root + path
    files = ("", "/cgroup.procs", "/cgroup.subtree_control")
    return CgroupDirectory(
        path,
        frozenset(_read(f"{real}/cgroup.controllers").split()),
        frozenset(_read(f"{real}/cgroup.subtree_control").split()),
        not os.path.exists(f"{real}/cgroup.type"),  # every group but the root of the whole tree has this file
        bool(_read(f"{real}/cgroup.procs").split()),
        all(os.access(real + name, os.W_OK) for name in files),
    )


def _only_ours(real: str, root: str, pid: int) -> bool:
    """Whether nobody but this process and what it started is in a group."""
    members = _read(f"{real}/cgroup.procs").split()
    return bool(members) and all(_descends(member, pid, root) for member in members)


def _descends(member: str, pid: int, root: str) -> bool:
    while member not in ("", "0", "1") and int(member) != pid:
        status = _read(f"{root}/proc/{member}/status")
        member = next((line.split()[1] for line in status.splitlines() if line.startswith("PPid:")), "")
    return member.isdigit() and int(member) == pid


def _is_marked(path: str) -> bool:
    try:
        return os.getxattr(path, MARK) == b"1"
    except OSError:
        return False


def _join(*parts: str) -> str:
    return "/" + "/".join(part.strip("/") for part in parts if part.strip("/"))


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read().strip()
    except OSError:
        return ""
