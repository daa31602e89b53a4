"""Which changes a commit writes and which it leaves, each reason by itself, on a tree of the test's own."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from pysandbox.probe.opening import Opening
from pysandbox.workspace.changes import Change, State
from pysandbox.workspace.plan import SPARE, Selection, chosen, judged, mode_of, steps
from pysandbox.workspace.upper import Tree

NOBODY = os.geteuid() + 1


def opened(path: Path, fd: int, *, since: float = 60.0, **said: object) -> Tree:
    """Opened so many seconds from now: what is there was there before, where that is not negative."""
    at = time.time_ns() + int(since * 1e9)
    return Tree(str(path), fd, Opening(*(at for _ in Opening._fields)), **said)  # type: ignore[arg-type]


def state(kind: str = "file", mode: int = 0o644, uid: int | None = None, size: int = 1, blocks: int = 8) -> State:
    owner = os.geteuid() if uid is None else uid
    return State(kind, mode, owner, owner, size, 0, 1, 1, 1, blocks)  # type: ignore[arg-type]


def change(path: str, kind: str = "added", before: State | None = None, after: State | None = None,
           risk: tuple[str, ...] = (), old: str = "") -> Change:  # fmt: skip
    if kind != "deleted":
        after = after or state()
    return Change(path, kind, before, after, risk, renamed_from=old)  # type: ignore[arg-type]


def judge(path: Path, *found: Change, named: tuple[str, ...] = (), since: float = 60.0, **said: object) -> Selection:
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        tree = opened(path, fd, since=since, **said)
        return judged(tree, chosen(found, None), named, frozenset(), owner=os.geteuid())
    finally:
        os.close(fd)


def reason(path: Path, one: Change, **said: object) -> str:
    """Why it is left; empty where it is written."""
    looked = judge(path, one, **said)  # type: ignore[arg-type]
    assert bool(looked.written) is not bool(looked.skipped)
    return looked.skipped[0].reason if looked.skipped else ""


REFUSED: dict[str, tuple[Change, Change, str]] = {
    # what is refused, the same but for that, and a word of the reason
    "a FIFO": (change("a", after=state("fifo")), change("a"), "a FIFO is never written"),
    "a socket": (change("a", after=state("socket")), change("a"), "a socket is never written"),
    "a device": (change("a", after=state("device")), change("a"), "a device is never written"),
    "too deep": (change("a", after=state("deep")), change("a"), "so deep"),
    "of another user": (change("a", after=state(uid=NOBODY)), change("a"), f"belongs to the user {NOBODY}"),
    "obeyed": (change(".vscode/x", risk=("guarded",)), change("x", risk=("runs-on-host",)), "only where it is named"),
    "read by us": (change("pysandbox.toml", risk=("policy",)), change("x"), "only where it is named"),
    "sparse": (
        change("a", after=state(size=SPARE + 8 * 512 + 1)), change("a", after=state(size=SPARE + 8 * 512)), "claims",
    ),
    "denied": (change("denied"), change("denie"), "the policy denies it"),
    "in what is denied": (change("denied/a"), change("denied-not/a"), "the policy denies it"),
    "from what is denied": (change("a", "renamed", old="denied"), change("a", "renamed", old="b"), "denies"),
    "matching": (change("x.key"), change("x.keys"), "the policy denies it"),
    "around what is denied": (
        change("in", "deleted", before=state("dir")), change("in", "metadata", state("dir"), state("dir")), "denies",
    ),
}  # fmt: skip


@pytest.mark.parametrize("why", REFUSED)
def test_each_reason_leaves_a_change_by_itself(tmp_path: Path, why: str) -> None:
    refused, written, text = REFUSED[why]
    said = {"denied": (b"denied", b"in/deep"), "patterns": (f"{tmp_path}/**/*.key",)}
    assert text in reason(tmp_path, refused, **said)
    assert reason(tmp_path, written, **said) == ""


@pytest.mark.skipif(os.geteuid() == 0, reason="root replaces what is another user's")
def test_what_is_another_user_s_in_the_tree_is_not_replaced(tmp_path: Path) -> None:
    assert "the tree's own belongs" in reason(tmp_path, change("a", "modified", before=state(uid=NOBODY)))
    assert reason(tmp_path, change("a", "modified", before=state())) == ""


@pytest.mark.parametrize("mark", ["guarded", "policy"])
def test_what_the_host_obeys_is_written_where_it_is_named_and_by_no_name_above_it(tmp_path: Path, mark: str) -> None:
    one = change("in/x", risk=(mark,))
    assert reason(tmp_path, one, named=("in/x",)) == ""
    assert "only where it is named" in reason(tmp_path, one, named=("in",))


def test_what_lies_in_what_is_not_written_is_not(tmp_path: Path) -> None:
    looked = judge(tmp_path, change("d", after=state("dir", uid=NOBODY)), change("d/x"), change("dx"))
    assert [each.path for each in looked.written] == ["dx"]
    assert [each.path for each in looked.skipped] == ["d", "d/x"]


@pytest.mark.parametrize("kind", ["deleted", "type"])
def test_a_directory_that_goes_is_kept_by_what_is_newer_or_read_by_us(tmp_path: Path, kind: str) -> None:
    (tmp_path / "d" / "in").mkdir(parents=True)
    (tmp_path / "d" / "in" / "x").write_text("")
    one = change("d", kind, before=state("dir"))
    assert reason(tmp_path, one) == ""
    conflicts = judge(tmp_path, one, since=-60.0).conflicts
    assert any("was changed in the tree meanwhile" in each.reason for each in conflicts)
    (tmp_path / "d" / "in" / "pysandbox.toml").write_text("")
    assert "reads at the next run" in reason(tmp_path, one)


def test_a_file_that_the_tree_has_changed_since_is_a_conflict(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("")
    one = change("a", "modified", before=State.of((tmp_path / "a").stat()))
    assert judge(tmp_path, one).conflicts == ()
    (conflict,) = judge(tmp_path, one, since=-60.0).conflicts
    assert conflict.path == "a"


def test_what_was_asked_for_comes_with_the_new_directories_on_its_way_alone() -> None:
    found = [change("d", after=state("dir")), change("d/e", after=state("dir")), change("d/e/x"), change("d/y"),
             change("de"), change("old", "metadata", state("dir"), state("dir")), change("old/x")]  # fmt: skip

    def paths(asked: list[str] | None, *, exactly: bool = False) -> list[str]:
        return [each.path for each in chosen(found, asked, exactly=exactly)]

    assert paths(["d/e/x"]) == ["d", "d/e", "d/e/x"]
    assert paths(["d/e/../e/"]) == ["d", "d/e", "d/e/x"]
    assert paths(["d"]) == ["d", "d/e", "d/e/x", "d/y"]
    assert paths(["d"], exactly=True) == ["d"]
    assert paths(["d/e/x"], exactly=True) == ["d", "d/e", "d/e/x"]
    assert paths(["old/x"]) == ["old/x"]  # what is there already keeps its mode
    assert paths([]) == [] and len(paths(None)) == len(paths(["."])) == len(found)


@pytest.mark.parametrize(
    ("kind", "mode", "inherited", "written"),
    [
        ("file", 0o4755, 0, 0o755), ("file", 0o2755, 0o2000, 0o755), ("file", 0o1644, 0, 0o644),
        ("file", 0o6777, 0, 0o777), ("dir", 0o755, 0o2000, 0o2755), ("dir", 0o2755, 0, 0o755),
        ("dir", 0o4755, 0, 0o755), ("dir", 0o1777, 0, 0o1777), ("dir", 0o755, 0o1777, 0o755),
    ],
)  # fmt: skip
def test_no_bit_that_runs_as_somebody_else_is_carried(kind: str, mode: int, inherited: int, written: int) -> None:
    assert mode_of(change("a", after=state(kind, mode)), inherited) == written
    assert mode_of(change("a", "deleted")) == 0


def test_each_name_has_one_rename_and_what_is_in_a_new_directory_comes_along() -> None:
    found = [change("d", after=state("dir")), change("d/x"), change("gone", "deleted", before=state()),
             change("m", "modified", before=state()), change("new", "renamed", old="was"),
             change("t", "type", before=state("dir"), after=state()),
             change("x", "metadata", state("dir"), state("dir")),
             change("y", "metadata", state(), state())]  # fmt: skip
    renames, traits = steps(found)
    assert {each.path: each.kind for each in renames} == {
        "d": "put", "gone": "take", "m": "swap", "new": "put", "t": "swap", "y": "swap", "was": "take",
    }  # fmt: skip
    assert [[each.path for each in step.inside] for step in renames if step.path == "d"] == [["d/x"]]
    assert [each.path for each in traits] == ["x"]
