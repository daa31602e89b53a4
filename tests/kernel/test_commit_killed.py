"""A commit that is killed, or fails, at any call leaves the old tree or the new one, and nothing between."""

from __future__ import annotations

import errno
import os
import shutil
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from _support.overlays import DirectoryUpper, Overlay, look
from pysandbox.errors import CageError
from pysandbox.workspace.bundle import bundles, open_bundle, write_bundle
from pysandbox.workspace.changes import changes_of
from pysandbox.workspace.commit import commit
from pysandbox.workspace.recovery import interrupted, recover
from pysandbox.workspace.undo import undo

PROGRAM = """
    Path("file").write_text("new"); os.unlink("gone"); shutil.rmtree("folder"); Path("added").write_text("new")
    os.mkdir("fresh"); Path("fresh/one").write_text("1"); os.symlink("one", "fresh/two"); os.chmod("stays", 0o711)
    os.unlink("becomes"); os.mkdir("becomes"); Path("becomes/in").write_text("2"); os.rename("named", "renamed")
    Path("edited").write_text("new"); os.rename("edited", "moved")
"""
STEP = int(os.environ.get("PSB_KILL_STEP", "7"))  # 1 tries every call
Point = Callable[[], None]


class Places:
    """A tree to be committed to, as often as wanted: a copy of the lower one each time."""

    def __init__(self, overlay: Overlay, tmp_path: Path) -> None:
        self.overlay, self.state = overlay, tmp_path / "state"
        self.pristine = tmp_path / "pristine"
        shutil.copytree(overlay.lower, self.pristine, symlinks=True)
        time.sleep(0.02)
        self.upper = overlay.write(PROGRAM)
        self.old, self.new = look(self.pristine), self.overlay.view

    def fresh(self) -> DirectoryUpper:
        for path in (self.overlay.lower, self.state):
            shutil.rmtree(path, ignore_errors=True)
        shutil.copytree(self.pristine, self.overlay.lower, symlinks=True)
        return DirectoryUpper(self.overlay.place, self.upper.tree.opening)


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Places]:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    overlay = Overlay(tmp_path / "trees")
    for name in ("file", "gone", "becomes", "named", "edited"):
        (overlay.lower / name).write_text(f"old {name}")
    for name in ("folder", "stays"):
        (overlay.lower / name).mkdir()
    (overlay.lower / "folder" / "inside").write_text("old")
    made = Places(overlay, tmp_path)
    yield made
    made.upper.drop()
    overlay.remove()


def at_call(number: int, act: Point) -> Callable[[FrameType, str, Any], None]:
    """`act` before the n-th call into C that this package makes."""
    count = 0

    def seen(frame: FrameType, event: str, argument: Any) -> None:
        nonlocal count
        name = frame.f_code.co_filename
        ours = "pysandbox/workspace" in name and is_a_system_call(argument)
        if event == "c_call" and (ours or name.endswith("launch/native.py")):
            count += 1
            if count == number:
                act()

    return seen


def is_a_system_call(function: Any) -> bool:
    """But close(2): it does not fail, and what is raised in its place would leave the descriptor open."""
    ours = getattr(function, "__module__", None) in ("posix", "fcntl", "_io")
    return (ours and function.__name__ != "close") or type(function).__name__ == "CompiledFFI"


def kill() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def in_a_child(number: int, work: Point) -> bool:
    """Whether it was killed before it ended by itself."""
    child = os.fork()
    if not child:
        try:
            sys.setprofile(at_call(number, kill))
            work()
        finally:
            sys.setprofile(None)
            os._exit(0)
    return os.WIFSIGNALED(os.waitpid(child, 0)[1])


def test_a_kill_at_any_call_is_finished_or_undone(places: Places) -> None:
    number, step, outcomes = 1, STEP, {"old": 0, "new": 0}
    while True:
        upper = places.fresh()
        killed = in_a_child(number, lambda upper=upper: force(upper))  # type: ignore[misc]
        if not killed:
            upper.drop()
            break
        recover()
        after = look(places.overlay.lower)
        assert after in (places.old, places.new), f"killed at call {number}: {sorted(after)}"
        outcomes["old" if after == places.old else "new"] += 1
        assert recover() == []
        upper.drop()
        number += step
    assert outcomes["old"] > 5 and outcomes["new"] > 1, outcomes


def force(upper: DirectoryUpper) -> str:
    return commit(upper, changes_of(upper), on_conflict="force").id


def test_a_kill_while_it_is_taken_back_is_finished_or_undone(places: Places) -> None:
    number, step, outcomes = 1, STEP, {"old": 0, "new": 0}
    while True:
        upper = places.fresh()
        name = force(upper)
        if not in_a_child(number, lambda name=name: undo(name)):  # type: ignore[misc]
            upper.drop()
            break
        recover()
        after = look(places.overlay.lower)
        assert after in (places.old, places.new), f"killed at call {number}: {sorted(after)}"
        outcomes["old" if after == places.old else "new"] += 1
        upper.drop()
        number += step
    assert outcomes["old"] > 1 and outcomes["new"] > 3, outcomes


@pytest.mark.parametrize("fault", [errno.ENOSPC, errno.EACCES])
def test_a_call_that_fails_leaves_the_old_tree_or_the_new_one(places: Places, fault: int) -> None:
    number, step, ended = 1, STEP, False

    def fail() -> None:
        raise OSError(fault, os.strerror(fault))

    while not ended:
        upper = places.fresh()
        found = changes_of(upper)
        ended = True
        try:
            sys.setprofile(at_call(number, lambda: (spot(), fail())[1]))
            commit(upper, found, on_conflict="force")
        except (CageError, OSError):
            pass
        finally:
            sys.setprofile(None)
        ended = number > MOST and not reached[0]
        reached[0] = False
        recover()
        after = look(places.overlay.lower)
        assert after in (places.old, places.new), f"{errno.errorcode[fault]} at call {number}: {sorted(after)}"
        upper.drop()
        number += step


MOST = 20  # calls, before the first that is not reached may mean the end
reached = [False]


def spot() -> None:
    reached[0] = True


def test_a_kill_of_whoever_finishes_it_is_finished_or_undone(places: Places) -> None:
    """Twice killed: in the commit, then in the recovery."""
    outcomes = {"old": 0, "new": 0}
    for first in range(40, 2000, STEP * 7):
        again = 1
        while True:
            upper = places.fresh()
            if not in_a_child(first, lambda upper=upper: force(upper)):  # type: ignore[misc]
                upper.drop()
                assert outcomes["old"] + outcomes["new"] > 5, outcomes
                return
            killed = in_a_child(again, recover)
            recover()
            after = look(places.overlay.lower)
            assert after in (places.old, places.new), f"killed at {first} and {again}: {sorted(after)}"
            assert recover() == interrupted() == []
            outcomes["old" if after == places.old else "new"] += 1
            upper.drop()
            if not killed:
                break
            again += STEP * 5


def test_a_kill_while_it_is_kept_leaves_no_half_of_it(places: Places) -> None:
    number, kept = 1, 0
    while True:
        upper = places.fresh()
        killed = in_a_child(number, lambda upper=upper: write_bundle([upper]))  # type: ignore[misc]
        found = bundles()
        for each in found:
            opened, _ = open_bundle(each.id)
            assert [change.path for change in changes_of(opened[0])] == [change.path for change in changes_of(upper)]
            opened[0].drop()
        kept += len(found)
        assert look(places.overlay.lower) == places.old
        upper.drop()
        if not killed:
            break
        number += STEP
    assert kept >= 1
