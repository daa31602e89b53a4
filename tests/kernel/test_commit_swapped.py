"""Whatever the host puts in the place of a name while a commit runs, nothing is written outside of the tree, and what
the host has written last is not lost.

The swaps are made at every call of the commit, one after the other: sampled here, all of them with PSB_SWAPS=10000.
"""

from __future__ import annotations

import os
import random
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from _support.overlays import DirectoryUpper, Overlay, look
from kernel.test_commit_killed import at_call
from pysandbox.errors import CageError
from pysandbox.workspace.changes import changes_of
from pysandbox.workspace.commit import commit
from pysandbox.workspace.recovery import interrupted, recover

PROGRAM = """
    Path("file").write_text("new"); os.unlink("gone"); shutil.rmtree("folder"); Path("added").write_text("new")
    os.mkdir("fresh"); Path("fresh/one").write_text("1"); os.chmod("deep", 0o711)
    Path("deep/er/new").write_text("x"); Path("deep/er/old").write_text("changed"); os.unlink("deep/er/last")
    os.unlink("becomes"); os.mkdir("becomes"); Path("becomes/in").write_text("2")
    Path("edited").write_text("new"); os.rename("edited", "deep/er/moved")
"""
SWAPS = int(os.environ.get("PSB_SWAPS", "32"))
SEED = int(os.environ.get("PSB_SEED", "5"))
MINE = "the host wrote this meanwhile"
Undo = Callable[[], None]


class Swapped:
    """A tree in which one name is swapped, and what must be true of it then."""

    def __init__(self, overlay: Overlay, outside: Path, pristine: Path) -> None:
        self.lower, self.outside, self.pristine = overlay.lower, outside, pristine

    def fresh(self) -> None:
        for path in (self.lower, self.outside):
            shutil.rmtree(path, ignore_errors=True)
        shutil.copytree(self.pristine, self.lower, symlinks=True)
        (self.outside / "er").mkdir(parents=True)
        for name in ("victim", "er/old", "er/last", "in"):
            (self.outside / name).write_text("never touched")

    def replace(self, name: str) -> Undo:
        """Another file of the host's takes the name, whatever had it."""
        path, new = self.lower / name, self.outside.parent / "mine"
        new.write_text(MINE)
        if path.is_dir() and not path.is_symlink():
            os.rename(path, self.outside.parent / f"aside{time.monotonic_ns()}")
        os.rename(new, path)
        return lambda: None

    def link(self, name: str, target: str) -> Undo:
        """A link that leads out takes the name, and gives it back at the end."""
        path, aside = self.lower / name, self.lower.parent / f"aside{time.monotonic_ns()}"
        had = os.path.lexists(path)
        if had:
            os.rename(path, aside)
        os.symlink(self.outside / target, path)

        def back() -> None:
            if had and path.is_symlink():
                path.unlink()
                os.rename(aside, path)

        return back

    def staged(self) -> Undo:
        """What was staged becomes a link that leads out."""
        for above, _, names in os.walk(self.lower):
            for name in names:
                if ".pysandbox-" in name:
                    os.unlink(f"{above}/{name}")
                    os.symlink(self.outside / "victim", f"{above}/{name}")
        return lambda: None


KINDS: dict[str, Callable[[Swapped], Undo]] = {
    **{f"replace {name}": (lambda tree, name=name: tree.replace(name))  # type: ignore[misc]
       for name in ("file", "added", "gone", "folder", "fresh", "becomes", "deep/er/old", "deep/er/new",
                   "edited", "deep/er/moved")},
    "link file": lambda tree: tree.link("file", "victim"),
    "link added": lambda tree: tree.link("added", "victim"),
    "link edited": lambda tree: tree.link("edited", "victim"),
    "link deep/er/moved": lambda tree: tree.link("deep/er/moved", "victim"),
    "link gone": lambda tree: tree.link("gone", "victim"),
    "link deep": lambda tree: tree.link("deep", "."),
    "link deep/er": lambda tree: tree.link("deep/er", "er"),
    "link folder": lambda tree: tree.link("folder", "er"),
    "link becomes": lambda tree: tree.link("becomes", "."),
    "link staged": lambda tree: tree.staged(),
}  # fmt: skip


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Swapped, DirectoryUpper]]:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    overlay = Overlay(tmp_path / "trees")
    for name in ("file", "gone", "becomes", "edited"):
        (overlay.lower / name).write_text(f"old {name}")
    for name in ("folder", "deep/er"):
        (overlay.lower / name).mkdir(parents=True)
    for name in ("folder/inside", "deep/er/old", "deep/er/last"):
        (overlay.lower / name).write_text("old")
    shutil.copytree(overlay.lower, tmp_path / "pristine", symlinks=True)
    time.sleep(0.02)
    upper = overlay.write(PROGRAM)
    yield Swapped(overlay, tmp_path / "outside", tmp_path / "pristine"), upper
    upper.drop()
    overlay.remove()


def one(tree: Swapped, upper: DirectoryUpper, kind: str, number: int) -> tuple[bool, bool]:
    """Whether the swap came in time, and whether the commit was made all the same."""
    tree.fresh()
    shutil.rmtree(tree.outside.parent / "state", ignore_errors=True)
    now = DirectoryUpper(upper.place, upper.tree.opening)
    found, before = changes_of(now), look(tree.outside)
    backs: list[Undo] = []
    written = False
    try:
        sys.setprofile(at_call(number, lambda: backs.append(KINDS[kind](tree))))
        commit(now, found, on_conflict="force")
        written = True
    except (CageError, OSError):
        pass
    finally:
        sys.setprofile(None)
        now.drop()
    assert look(tree.outside) == before, f"{kind} at call {number} wrote outside"
    if backs and kind.startswith("replace "):
        path = tree.lower / kind.partition(" ")[2]
        assert path.is_file() and path.read_text() == MINE, f"{kind} at call {number}: what the host wrote is lost"
    for back in backs:
        back()
    recover()
    assert look(tree.outside) == before, f"{kind} at call {number}: recovery wrote outside"
    left = [name for name in look(tree.lower) if ".pysandbox-" in name]
    assert kind == "link staged" or not left, f"{kind} at call {number} left {left}"
    assert interrupted() == []
    return bool(backs), written


@pytest.mark.timeout(120 + SWAPS)
def test_nothing_is_written_outside_and_nothing_of_the_host_s_is_lost(tree: tuple[Swapped, DirectoryUpper]) -> None:
    swapped, upper = tree
    chance = random.Random(SEED)
    kinds = sorted(KINDS)
    outcomes = {"in time": 0, "too late": 0, "written": 0, "refused": 0}
    for number in range(SWAPS):
        in_time, written = one(swapped, upper, kinds[number % len(kinds)], chance.randrange(1, 300))
        outcomes["in time" if in_time else "too late"] += 1
        outcomes["written" if written else "refused"] += in_time
    print(outcomes)
    assert outcomes["in time"] > outcomes["too late"] and outcomes["refused"] > 5, outcomes
