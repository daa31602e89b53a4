"""What a test may leave behind: nothing. A picture of this process and its cages, taken before and after.

`Picture.take()` looks, `left_behind(before)` compares; the fixture in conftest.py waits a moment for what the kernel
still tears down. Only things of this process and its descendants are looked at (lineage.py), so that other work on the
machine, also the same user's, cannot fail a test.
"""

from __future__ import annotations

import glob
import json
import logging
import os
import re
import signal
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields

from _support.lineage import is_foreign, is_ours

WORKER_PREFIX = "pysandbox-"  # the library's background worker; the only thread that may outlive a test
LEAF = "/pysandbox-host"  # the cgroup this process itself may have had to move to
# A descriptor of a user namespace is probe/kernel.py's, made once and kept.
PROGRAMS = ("/cage-init", "/uncaged-init")  # what cages and uncaged runs start as; opened once, O_PATH, and kept

# One line of advice for each kind of residue: what to look for first.
ADVICE = {
    "fds": "an open file descriptor: close() the Cage or Process, or own it with `with`",
    "children": "a child process that still runs or was never waited for",
    "strays": "a process that outlived the test that started it: a cage, or a program of one",
    "mounts": "a mount in the host's mount namespace: propagation was not cut",
    "paths": "a temporary directory or cgroup that was not removed",
    "settings": "a setting of this process that every later test meets: put it back, or use monkeypatch",
    "threads": f"a thread; only the background worker ({WORKER_PREFIX}*) may stay",
}


@dataclass(frozen=True)
class Picture:
    """Each field maps what was found to a description of it; the names are those of `ADVICE`."""

    fds: Mapping[str, str]
    children: Mapping[str, str]
    strays: Mapping[str, str]
    mounts: Mapping[str, str]
    paths: Mapping[str, str]
    settings: Mapping[str, str]
    threads: Mapping[str, str]

    @classmethod
    def take(cls, *, cages: bool = True) -> Picture:
        """`cages=False` leaves out the walk over /proc, for tests that cannot have started one."""
        return cls(
            fds=dict(_fds()),
            children=dict(_children()),
            strays=dict(_strays()) if cages else {},
            mounts=dict(_mounts()),
            paths=dict(_paths()),
            settings=dict(_settings()),
            threads=dict(_threads()),
        )

    def left_behind(self, before: Picture) -> list[str]:
        """One line for everything that is here and was not there `before`; empty when nothing is."""
        lines = []
        for each in fields(self):
            mine, theirs = getattr(self, each.name), getattr(before, each.name)
            new = {key: text for key, text in mine.items() if theirs.get(key) != text}
            lines += [f"{each.name}: {text} ({ADVICE[each.name]})" for text in new.values()]
        return lines


def _settings() -> Iterator[tuple[str, str]]:
    yield "cwd", f"working directory {os.getcwd()}"
    root = logging.root
    yield "logging", f"root logger of level {root.level}, logging up to level {root.manager.disable} switched off"
    for number in signal.valid_signals():
        yield f"signal {number}", f"handler of signal {number}: {signal.getsignal(number)}"


def _fds() -> Iterator[tuple[str, str]]:
    """All but stdin, stdout and stderr: whoever runs the suite chooses those, and pytest puts its own in place."""
    for name in os.listdir("/proc/self/fd"):
        if int(name) <= 2:
            continue
        try:
            target = os.readlink(f"/proc/self/fd/{name}")
        except FileNotFoundError:  # the descriptor of this very listing
            continue
        if not target.endswith(PROGRAMS) and not target.startswith("user:[") and not _is_the_null_device(int(name)):
            yield name, f"fd {name} -> {target}"


def _is_the_null_device(fd: int) -> bool:
    """The one descriptor that stands for every DEVNULL; the library keeps it."""
    stdio = sys.modules.get("pysandbox.launch.stdio")
    return stdio is not None and fd == stdio._null._fd


def _children() -> Iterator[tuple[str, str]]:
    """Children of every thread, also those cloned without SIGCHLD, which wait() alone would not show."""
    for task in os.listdir("/proc/self/task"):
        for pid in _read(f"/proc/self/task/{task}/children").split():
            yield pid, f"pid {pid} ({_command(pid)})"


def _strays() -> Iterator[tuple[str, str]]:
    """Every living descendant, also in another PID namespace, and orphans, which are nobody's children any more; not
    dead ones, which are init's to collect."""
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            if int(pid) != os.getpid() and is_ours(pid) and not _is_dead(pid):
                yield pid, f"pid {pid} ({_command(pid)})"
        except OSError:  # it ended
            continue


def _mounts() -> Iterator[tuple[str, str]]:
    for line in _read("/proc/self/mountinfo").splitlines():
        number, _, _, _, point = line.split()[:5]
        yield number, f"mount {number} on {point}"


def _is_ours(path: str) -> bool:
    try:
        return os.lstat(path).st_uid == os.geteuid()
    except FileNotFoundError:  # removed meanwhile, as it should be
        return False


def _paths() -> Iterator[tuple[str, str]]:
    folders = {tempfile.gettempdir(), os.environ.get("XDG_RUNTIME_DIR", ""), "/dev/shm", *_cgroups()}
    for folder in folders - {""}:
        for path in glob.glob(f"{glob.escape(folder)}/pysandbox-*"):
            if _is_ours(path) and not path.endswith(LEAF) and path != _registry() and not _is_in_use_elsewhere(path):
                yield path, path
    stale = _stale_records()
    for path in glob.glob(f"{glob.escape(_registry())}/[.0-9A-Z]*"):
        if path not in stale and not _is_of_another_host(path):
            yield path, path


def _is_in_use_elsewhere(path: str) -> bool:
    """A directory or group bears the name of the process that made it (launch/owner.py): "...-NAMESPACE-PID-START"."""
    owner = re.search(r"pysandbox-\d+-(\d+)-\d+", path)
    return owner is not None and is_foreign(owner[1])


def _is_of_another_host(path: str) -> bool:
    """A record of a live cage that this user has open besides."""
    try:
        return is_foreign(json.loads(_read(path))["host"][1])
    except (ValueError, LookupError, TypeError):
        return False


def _stale_records() -> set[str]:
    """Those of hosts that a test has killed: they stand for nothing, and the next host removes them."""
    orphans = sys.modules.get("pysandbox.records.orphans")
    found = () if orphans is None else orphans.find_orphans()
    return {each.path for each in found if each.kind == "record" and not each.detail}


def _registry() -> str:
    """The directory of the records of live cages stays; what is in it does not."""
    registry = sys.modules.get("pysandbox.records.registry")
    return "" if registry is None else str(registry.private_directory())


def _cgroups() -> Iterator[str]:
    """The directory of this process in the cgroup v2 tree and those above it: where the groups of cages can be."""
    point = "/sys/fs/cgroup/unified" if os.path.isdir("/sys/fs/cgroup/unified") else "/sys/fs/cgroup"
    for line in _read("/proc/self/cgroup").splitlines():
        if line.startswith("0::"):
            own = line[3:].rstrip("/")
            while own:
                yield point + own
                own = own.rpartition("/")[0]
            yield point


def _threads() -> Iterator[tuple[str, str]]:
    """Threads by kernel id, so that one started in C is seen as well."""
    names = {each.native_id: each.name for each in threading.enumerate()}
    for task in map(int, os.listdir("/proc/self/task")):
        name = names.get(task) or _read(f"/proc/self/task/{task}/comm").strip()
        if name and not name.startswith(WORKER_PREFIX):
            yield str(task), f"thread {name}"


def _is_dead(pid: str) -> bool:
    return _read(f"/proc/{pid}/stat").rpartition(")")[2].lstrip()[:1] in ("Z", "X", "")


def _command(pid: str) -> str:
    command = _read(f"/proc/{pid}/cmdline").replace("\0", " ").strip()
    return command[:80] or _read(f"/proc/{pid}/stat").partition(") ")[0].partition("(")[2] or "ended"


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""
