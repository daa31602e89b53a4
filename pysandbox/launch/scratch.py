"""Scratch directories on the host: what stands for SCRATCH in a Plan.

A cage without a mount namespace gets one of its own, removed with it; with `state = "scratch"` the cages of a Session
share one, removed when the session is closed (COMP-08, LIFE-11). Cages with neither have a tmpfs and no directory.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from functools import partial
from typing import Self

from pysandbox.compile.plan import SCRATCH, Plan
from pysandbox.launch.owner import this_process

PREFIX = "pysandbox-"  # then the owner, so that what a killed host left is told from what is in use (orphans.py)


def make_scratch() -> str:
    """A new directory of mode 0700, by its real path: in $XDG_RUNTIME_DIR, else the temporary directory."""
    return os.path.realpath(tempfile.mkdtemp(prefix=f"{PREFIX}{this_process()}-", dir=scratch_parent()))


def scratch_parent() -> str:
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    return runtime if runtime and os.access(runtime, os.W_OK | os.X_OK) else tempfile.gettempdir()


def remove_scratch(path: str) -> None:
    """Removes it with all that a hostile command may have left in it: symlinks are not followed (shutil.rmtree works by
    descriptor), directories it made unreadable are opened up first."""
    if os.path.lexists(path):
        shutil.rmtree(path, onerror=partial(_open_up_and_retry, path))


def _open_up_and_retry(root: str, function: object, path: str, _: object) -> None:
    """Opens up what is inside; the directory that holds the scratch directory is not ours to change."""
    parent = os.path.dirname(path)
    try:
        if path != root:
            os.chmod(parent, 0o700, follow_symlinks=True)
        if os.path.isdir(path) and not os.path.islink(path):
            os.chmod(path, 0o700)
            shutil.rmtree(path, ignore_errors=True)
        else:
            os.unlink(path)
    except OSError:
        return


def uses_scratch(plan: Plan) -> bool:
    rules = plan.landlock.rules if plan.landlock else ()
    return any(rule.path == "" for rule in rules) or any(step.source == SCRATCH for step in plan.mounts)


class Session:
    """The /scratch that cages with `state = "scratch"` share. A context manager; `close` removes it, idempotent."""

    def __init__(self) -> None:
        self.path = make_scratch()
        self._closed = False

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            remove_scratch(self.path)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
