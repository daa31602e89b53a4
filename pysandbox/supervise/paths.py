"""The files that the calls of one cage missed, held against what the host has: which of them the cage has refused.

The C half looks at each path in the cage, tells every kind of look once and counts the rest. Here the host is asked,
when the call has gone on: nothing that a cage can feel depends on what the host has. A path that the cage has chosen
starts nothing on the host either: no automount, no FIFO, no device is opened (O_PATH).
"""

from __future__ import annotations

import os
import posixpath
import threading
from contextlib import suppress

from pysandbox.compile.plan import Plan
from pysandbox.launch import native
from pysandbox.policy.model import Policy
from pysandbox.policy.paths_wanted import denies
from pysandbox.supervise.missed import Missed, OnHost, judged

MOUNTS = "/proc/self/mountinfo"
DENY = "filesystem.deny"


class HostLooks:
    """What the user would find at a path of the host."""

    def __init__(self) -> None:
        self._root = -1
        self._resolve: int | None = None

    def at(self, missed: Missed) -> OnHost:
        path = os.path.normpath(missed.path) if ".." not in missed.path.split("/") else missed.path
        real = self._real(path)
        if real:
            written = posixpath.dirname(real) if missed.wanted == "REMOVE" else real
            return OnHost(True, True, _may_write(written), real)
        above, name = posixpath.split(path.rstrip("/"))
        real_above = self._real(above) if missed.makes else ""
        whole = posixpath.join(real_above, name) if real_above else path
        return OnHost(False, bool(real_above), bool(real_above) and _may_write(real_above), whole)

    def _real(self, path: str) -> str:
        """Where it leads, "" where there is nothing, or nothing that could be looked at without waking it up."""
        for resolve in (native.RESOLVE_CACHED, self._fully()):
            if resolve is None:
                return ""
            resolve |= native.RESOLVE_NO_MAGICLINKS
            try:
                held = native.open_inside(self._slash(), path, os.O_PATH, resolve=resolve)
            except BlockingIOError:
                continue
            except OSError:
                return ""
            try:
                return os.readlink(f"/proc/self/fd/{held}")
            finally:
                os.close(held)
        return ""

    def _slash(self) -> int:
        if self._root < 0:
            self._root = os.open("/", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        return self._root

    def _fully(self) -> int | None:
        """How to look at what is not cached; None where that could mount something."""
        if self._resolve is None:
            self._resolve = -1 if _has_automounts() else 0
        return None if self._resolve < 0 else self._resolve

    def close(self) -> None:
        if self._root >= 0:
            os.close(self._root)
            self._root = -1


def _may_write(path: str) -> bool:
    return os.access(path, os.W_OK, effective_ids=True)


def _has_automounts() -> bool:
    with suppress(OSError), open(MOUNTS, "rb") as file:
        return any(b" - autofs " in line and not line.split()[4].startswith(b"/proc/") for line in file)
    return True


class PathJudge:
    """Says of each look what it came to. Any thread may call it."""

    def __init__(self, plan: Plan, policy: Policy) -> None:
        self._plan, self._policy = plan, policy
        self._host = HostLooks()
        self._lock = threading.Lock()
        self._closed = False

    def of(self, missed: Missed) -> tuple[str, str] | None:
        """The policy key that refused it, and the line that would allow it; None where the cage is not why."""
        with self._lock:
            found = None if self._closed else self._judged(missed)
            if self._closed:
                self._host.close()
            return found

    def _judged(self, missed: Missed) -> tuple[str, str] | None:
        host = self._host.at(missed)
        found = judged(missed, host, self._plan)
        is_denied = found is not None and denies(self._policy, self._plan.cwd, missed.path, host.real)
        return (DENY, "") if is_denied else found

    def close(self) -> None:
        """Does not wait for a look that a file system of the host holds up: that one ends by itself."""
        self._closed = True
        if self._lock.acquire(blocking=False):
            try:
                self._host.close()
            finally:
                self._lock.release()
