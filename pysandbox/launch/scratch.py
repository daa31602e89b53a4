"""Scratch directories on the host: what stands for SCRATCH in a Plan.

A cage without a mount namespace gets one of its own, removed with it; with `state = "scratch"` the cages of a Session
share one, removed when the session is closed (COMP-08, LIFE-11). Cages with neither have a tmpfs and no directory.
"""

from __future__ import annotations

import os
import tempfile
import threading
import weakref
from typing import TYPE_CHECKING, Self

from pysandbox.compile.plan import SCRATCH, Plan
from pysandbox.errors import CageClosedError
from pysandbox.launch.owner import this_process
from pysandbox.launch.removal import remove_tree

if TYPE_CHECKING:
    from pysandbox.launch.live import LiveInit

PREFIX = "pysandbox-"  # then the owner, so that what a killed host left is told from what is in use (orphans.py)


def make_scratch() -> str:
    """A new directory of mode 0700, by its real path: in $XDG_RUNTIME_DIR, else the temporary directory."""
    return os.path.realpath(tempfile.mkdtemp(prefix=f"{PREFIX}{this_process()}-", dir=scratch_parent()))


def scratch_parent() -> str:
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    return runtime if runtime and os.access(runtime, os.W_OK | os.X_OK) else tempfile.gettempdir()


def uses_scratch(plan: Plan) -> bool:
    rules = plan.landlock.rules if plan.landlock else ()
    return any(rule.path == "" for rule in rules) or any(step.source == SCRATCH for step in plan.mounts)


class Session:
    """The /scratch that cages with `state = "scratch"` share. A context manager; `close` ends the cages that still use
    it, then removes it, idempotent. A forked copy leaves both to the original."""

    def __init__(self) -> None:
        self.path = make_scratch()
        self._owner = os.getpid()
        self._lock = threading.Lock()
        self._users: weakref.WeakSet[LiveInit] = weakref.WeakSet()
        self._closed = False

    def demand_open(self) -> None:
        """Raises CageClosedError."""
        if self._closed:
            raise CageClosedError("this session is closed; make another one")

    def admit(self, live: LiveInit) -> None:
        """This cage uses it from now on, and is ended before it is removed. Raises CageClosedError."""
        with self._lock:
            self.demand_open()
            self._users.add(live)

    def close(self) -> None:
        if os.getpid() != self._owner:
            return
        with self._lock:
            closed, self._closed = self._closed, True
            users = list(self._users)
        if closed:
            return
        for live in users:
            live.end()
        gone = [live.reap() for live in users]
        if all(gone):  # what hangs in the kernel may still write there: left to `orphans`
            remove_tree(self.path)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
