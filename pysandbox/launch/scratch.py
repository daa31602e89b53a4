"""Scratch directories on the host: what stands for SCRATCH in a Plan.

A cage without a mount namespace gets one of its own, removed with it; with `state = "scratch"` the cages of a Session
share one, removed when the session is closed (COMP-08, LIFE-11). Cages with neither have a tmpfs and no directory.
"""

from __future__ import annotations

import os
import sys
import threading
import weakref

from pysandbox.errors import CageClosedError
from pysandbox.launch.owner import this_process
from pysandbox.launch.removal import remove_tree
from pysandbox.shapes import Protocol, Self

PREFIX = "pysandbox-"  # then the owner, so that what a killed host left is told from what is in use (orphans.py)


def make_scratch() -> str:
    """A new directory of mode 0700, by its real path: in $XDG_RUNTIME_DIR, else the temporary directory."""
    import tempfile

    return os.path.realpath(tempfile.mkdtemp(prefix=f"{PREFIX}{this_process()}-", dir=scratch_parent()))


def scratch_parent() -> str:
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    if runtime and os.access(runtime, os.W_OK | os.X_OK):
        return runtime
    return temporary_directory()


def temporary_directory() -> str:
    """As `tempfile.gettempdir`, without its modules where nobody has them: they are a tenth of what a run imports."""
    if "tempfile" not in sys.modules:
        for place in (*map(os.environ.get, ("TMPDIR", "TEMP", "TMP")), "/tmp", "/var/tmp"):
            if place and os.path.isdir(place) and os.access(place, os.W_OK | os.X_OK):
                return os.path.abspath(place)
    import tempfile

    return tempfile.gettempdir()


class ScratchUser(Protocol):
    """A cage, which ends before what it writes to is removed."""

    def end(self) -> None: ...
    def reap(self) -> bool:
        """Whether it is gone; waits for that."""


class Session:
    """The /scratch that cages with `state = "scratch"` share. A context manager; `close` ends the cages that still use
    it, then removes it, idempotent. A forked copy leaves both to the original."""

    def __init__(self) -> None:
        self.path: str = make_scratch()
        self._owner = os.getpid()
        self._lock = threading.Lock()
        self._users: weakref.WeakSet[ScratchUser] = weakref.WeakSet()
        self._closed = False

    def require_open(self) -> None:
        """Raises CageClosedError."""
        if self._closed:
            raise CageClosedError("this session is closed; make another one")

    def admit(self, live: ScratchUser) -> None:
        """This cage uses it from now on, and is ended before it is removed. Raises CageClosedError."""
        with self._lock:
            self.require_open()
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
