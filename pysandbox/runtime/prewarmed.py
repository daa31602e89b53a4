"""Which policies a Runtime was told to keep cages ready for (`Runtime.prewarm`), and the plans these are of now.

A plan is compiled anew when a path of its policy changes on the host. Cages of the old one would never be taken, so
each look of the background thread has those of the new one wait in their place.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable

from pysandbox.errors import CageError, PolicyError
from pysandbox.policy.model import Policy
from pysandbox.runtime.prepared import Prepared
from pysandbox.shapes import Protocol

MOST = 256  # of one policy; each is a process of some 30 KiB, with descriptors of this one


class Keeps(Protocol):
    """What has so many cages of a plan wait."""

    def __call__(self, prepared: Prepared, count: int, /) -> None: ...


class Prewarmed:
    """By policy and directory."""

    def __init__(self, prepare: Callable[[Policy, str], Prepared], keep: Keeps) -> None:
        self._prepare, self._keep = prepare, keep
        self._wanted: dict[tuple[Policy, str], tuple[Prepared, int]] = {}
        self._lock = threading.RLock()

    def want(self, policy: Policy, count: int, cwd: str) -> None:
        """Raises PolicyError, UnsupportedError, StartError."""
        with self._lock:
            self._want(policy, count, cwd)

    def _want(self, policy: Policy, count: int, cwd: str) -> None:
        if isinstance(count, bool) or not isinstance(count, int) or not 0 <= count <= MOST:
            raise ValueError(f"prewarm: {count!r} is not a number of cages from 0 to {MOST}")
        was = self._wanted.pop((policy, cwd), None)
        if was is not None and (not count or not was[0].fresh()):
            self._keep(was[0], 0)
        if not count:
            return
        prepared = self._prepare(policy, cwd)
        if prepared.placeholders:
            names = ", ".join(prepared.placeholders)
            raise PolicyError(f"no cage of this policy can wait: {names} would stand on the host meanwhile",
                              key="filesystem.deny", suggestion="create what is denied, or do not prewarm")  # fmt: skip
        if prepared.plan.copies is not None:
            raise PolicyError("no cage of this policy can wait: its copies of the directories would be old by then",
                              key="workspace.storage", suggestion='use storage = "memory" or "disk", or do not prewarm'
                              )  # fmt: skip
        if (
            prepared.plan.net is not None
            and prepared.plan.net.inspection is not None
            and not prepared.trusted.get(False)
        ):
            raise PolicyError("no cage of this policy can wait before the first: that starts the inspector, which "
                              "its hosts need", key="hosts", suggestion="run a command of it first")  # fmt: skip
        self._wanted[policy, cwd] = prepared, count
        self._keep(prepared, count)

    def follow(self) -> None:
        """Has cages of a new plan wait where the old one holds no more. What cannot be compiled or opened is tried
        again at the next look, and whoever starts a command hears why."""
        for (policy, cwd), wanted in list(self._wanted.items()):
            prepared, count = wanted
            if prepared.fresh() or not os.path.isdir(cwd):
                continue
            with self._lock:
                if self._wanted.get((policy, cwd)) is not wanted:  # its user wants something else by now
                    continue
                try:
                    self._want(policy, count, cwd)
                except (CageError, OSError):
                    self._wanted[policy, cwd] = wanted

    def forget(self) -> None:
        self._wanted.clear()
