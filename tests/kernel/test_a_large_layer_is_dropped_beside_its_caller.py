"""Giving back a memory file system takes the kernel its time: whoever forgets a workspace does not wait for it."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from _support.overlays import DirectoryUpper
from pysandbox import Cage, Policy
from pysandbox.probe.opening import Opening
from pysandbox.workspace import workspace as module
from pysandbox.workspace.apart import KeptApart
from pysandbox.workspace.workspace import Workspace


class Slow(DirectoryUpper):
    """Dropping it waits until the test lets it."""

    def __init__(self, place: Path) -> None:
        for name in ("lower", "upper"):
            (place / name).mkdir(parents=True)
        super().__init__(place, Opening.now())
        self.may_go, self.is_slow = threading.Event(), True

    def is_slow_to_drop(self) -> bool:
        return self.is_slow

    def drop(self) -> None:
        assert self.may_go.wait(60)
        super().drop()


@pytest.fixture
def slow(tmp_path: Path) -> Iterator[Slow]:
    upper = Slow(tmp_path / "slow")
    yield upper
    upper.may_go.set()
    for thread in threading.enumerate():
        if thread.name == "pysandbox-drop":
            thread.join()
    assert upper.tree.fd == -1


def test_who_forgets_it_goes_on(slow: Slow) -> None:
    workspace = Workspace([slow])
    workspace.abort()
    assert slow.tree.fd >= 0 and workspace.changes() == []
    workspace.abort()


def test_without_a_thread_it_is_dropped_at_once(slow: Slow, monkeypatch: pytest.MonkeyPatch) -> None:
    def none_left(*_: object, **__: object) -> threading.Thread:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(module.threading, "Thread", none_left)
    slow.may_go.set()
    Workspace([slow]).abort()
    assert slow.tree.fd == -1


def test_only_much_memory_is_slow(tmp_path: Path) -> None:
    (tmp_path / "tree").mkdir()
    found = []
    for size in (1, 16):
        with Cage(Policy(cow=[str(tmp_path / "tree")], cow_mb=64)) as cage:
            cage.run(["dd", "if=/dev/zero", f"of={tmp_path}/tree/large", "bs=1M", f"count={size}"])
            kept = cage._live.services.find(KeptApart)  # type: ignore[union-attr]
            assert kept is not None
            found.append(kept.uppers[0].is_slow_to_drop())
        cage.workspace.abort()
        for thread in threading.enumerate():
            if thread.name == "pysandbox-drop":
                thread.join()
    assert found == [False, True] and os.listdir(tmp_path / "tree") == []
