"""A commit to two trees that is killed at any call leaves both as they were, or both as they were to be."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from _support.overlays import DirectoryUpper, Overlay, look
from pysandbox.probe.opening import Opening
from pysandbox.workspace import store
from pysandbox.workspace.changes import changes_of
from pysandbox.workspace.commit import CommitPart, commit_all
from pysandbox.workspace.journal import CommitJournal, Move
from pysandbox.workspace.recovery import interrupted, recover

from .test_commit_killed import STEP, in_a_child

PROGRAM = 'Path("file").write_text("new"); os.unlink("gone"); Path("added").write_text("new")'
State = tuple[dict[str, object], ...]


class Trees:
    """Two trees to be committed to, as often as wanted: copies of the lower ones each time."""

    def __init__(self, place: Path) -> None:
        self.place, self.overlays = place, [Overlay(place / name) for name in ("first", "second")]
        for each in self.overlays:
            for name in ("file", "gone"):
                (each.lower / name).write_text(f"old {name}")
            shutil.copytree(each.lower, each.place / "pristine")
        time.sleep(0.02)
        written = [each.write(PROGRAM) for each in self.overlays]
        self.openings: list[Opening] = [each.tree.opening for each in written]
        for each in written:
            each.drop()
        self.old, self.new = self.now(), tuple(each.view for each in self.overlays)

    def now(self) -> State:
        return tuple(look(each.lower) for each in self.overlays)

    def fresh(self) -> list[DirectoryUpper]:
        shutil.rmtree(self.place / "state", ignore_errors=True)
        for each in self.overlays:
            shutil.rmtree(each.lower)
            shutil.copytree(each.place / "pristine", each.lower)
        return [DirectoryUpper(each.place, opening) for each, opening in zip(self.overlays, self.openings, strict=True)]


@pytest.fixture
def trees(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Trees]:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    made = Trees(tmp_path)
    yield made
    for each in made.overlays:
        each.remove()


def force(uppers: list[DirectoryUpper]) -> None:
    commit_all([CommitPart(each, changes_of(each)) for each in uppers], on_conflict="force")


def test_a_kill_at_any_call_leaves_all_trees_or_none(trees: Trees) -> None:
    number, outcomes = 1, {"old": 0, "new": 0}
    while True:
        uppers = trees.fresh()
        killed = in_a_child(number, lambda uppers=uppers: force(uppers))  # type: ignore[misc]
        for each in uppers:
            each.drop()
        if not killed:
            break
        recover()
        after = trees.now()
        assert after in (trees.old, trees.new), f"killed at call {number}: {after}"
        outcomes["old" if after == trees.old else "new"] += 1
        assert recover() == []
        number += STEP
    assert trees.now() == trees.new, "the control: nobody killed it"
    assert outcomes["old"] > 5 and outcomes["new"] > 1, outcomes


def end_before_the_second_line(uppers: list[DirectoryUpper]) -> None:
    lines: list[None] = []
    apply = CommitJournal.apply

    def counted(journal: CommitJournal, moves: Sequence[Move]) -> None:
        if lines:
            os._exit(0)
        lines.append(apply(journal, moves))  # type: ignore[func-returns-value]

    CommitJournal.apply = counted  # type: ignore[method-assign]
    try:
        force(uppers)
    finally:
        os._exit(1)


@pytest.mark.parametrize("then", ["recovery is killed", "a tree is out of reach"])
def test_between_two_lines_nothing_is_applied(trees: Trees, then: str) -> None:
    """The first journal says that it is to be applied, and the last does not yet. Control: `recover` at once."""
    for is_control in (True, False):
        uppers = trees.fresh()
        child = os.fork()
        if not child:
            end_before_the_second_line(uppers)
        assert os.WEXITSTATUS(os.waitpid(child, 0)[1]) == 0
        for each in uppers:
            each.drop()
        assert [each.outcome for each in interrupted()] == ["to be undone"] * 2
        if not is_control and then == "recovery is killed":
            for number in range(1, 40, 3):
                in_a_child(number, lambda: recover() and None)
        elif not is_control:
            first = trees.overlays[0].lower
            away = first.rename(first.with_name("away"))
            assert [each.outcome[:4] for each in recover()] == ["left", "undo"]
            away.rename(first)
        recover()
        assert trees.now() == trees.old and recover() == []
        assert [
            each for each in store.names() if (trees.place / "state/pysandbox/workspaces" / each / "journal").exists()
        ] == []


def test_what_cannot_be_finished_in_one_tree_is_taken_back_in_the_other(trees: Trees) -> None:
    """Killed when all was decided and nothing was done, and then the tree was changed that comes first."""
    uppers = trees.fresh()
    child = os.fork()
    if not child:
        import pysandbox.workspace.commit as module

        module.apply = lambda *_: os._exit(0)  # type: ignore[assignment]
        try:
            force(uppers)
        finally:
            os._exit(1)
    assert os.WEXITSTATUS(os.waitpid(child, 0)[1]) == 0
    for each in uppers:
        each.drop()
    with store.opened_one(store.names()[0]) as place:
        first = CommitJournal(place).read()
    assert first is not None
    changed = [str(each.lower) for each in trees.overlays].index(first.tree)
    lower = trees.overlays[changed].lower
    (lower / "gone").unlink()
    (lower / "gone").write_text("somebody's")
    recover()
    assert trees.now()[1 - changed] == trees.old[1 - changed] and (lower / "file").read_text() == "old file"
