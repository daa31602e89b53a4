"""What the host changed meanwhile is seen, however it tries to look unchanged; and nothing is written then."""

from __future__ import annotations

import os
import random
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from _support.overlays import Overlay, file_system, look
from _support.snapshots import BOTH
from pysandbox.errors import CommitConflict, CommitError
from pysandbox.probe.file_systems import of_magic
from pysandbox.probe.kernel import version
from pysandbox.probe.opening import Opening
from pysandbox.workspace import conflict
from pysandbox.workspace.changes import State, changes_of
from pysandbox.workspace.commit import commit
from pysandbox.workspace.recovery import recover
from pysandbox.workspace.upper import Upper

ROUNDS = 150


@pytest.fixture(params=BOTH)
def overlay(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Overlay]:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    made: Overlay = request.param(tmp_path / "trees")
    for name in ("file", "gone", "other"):
        (made.lower / name).write_text("old")
    (made.lower / "folder").mkdir()
    (made.lower / "folder" / "inside").write_text("old")
    time.sleep(0.02)
    yield made
    made.remove()


def changed(overlay: Overlay) -> Upper:
    upper = overlay.write("""
        Path("file").write_text("new"); os.unlink("gone"); shutil.rmtree("folder"); Path("added").write_text("new")
    """)
    time.sleep(0.02)
    return upper


def put_back(path: Path, change: Callable[[], object]) -> None:
    found = path.stat()
    change()
    os.utime(path, ns=(found.st_atime_ns, found.st_mtime_ns))


def replaced_by_an_older_one(path: Path) -> None:
    os.rename(path.parent / "other", path)


HOST: dict[str, tuple[str, Callable[[Path], object]]] = {
    "edited": ("file", lambda tree: (tree / "file").write_text("host")),
    "edited and put back": ("file", lambda tree: put_back(tree / "file", lambda: (tree / "file").write_text("hos"))),
    "replaced by an older one": ("file", lambda tree: replaced_by_an_older_one(tree / "file")),
    "its mode": ("file", lambda tree: (tree / "file").chmod(0o600)),
    "a second name": ("file", lambda tree: os.link(tree / "file", tree / "second")),
    "an attribute": ("file", lambda tree: os.setxattr(tree / "file", "user.x", b"1")),
    "removed though modified": ("file", lambda tree: (tree / "file").unlink()),
    "edited though deleted": ("gone", lambda tree: (tree / "gone").write_text("host")),
    "made though added": ("added", lambda tree: (tree / "added").write_text("host")),
    "edited in a directory that goes": ("folder", lambda tree: (tree / "folder" / "inside").write_text("host")),
    "added in a directory that goes": ("folder", lambda tree: (tree / "folder" / "fresh").write_text("host")),
}


@pytest.mark.parametrize("how", HOST)
def test_nothing_is_written_where_one_path_was_changed(overlay: Overlay, how: str) -> None:
    upper = changed(overlay)
    path, act = HOST[how]
    act(overlay.lower)
    before = look(overlay.lower)
    with pytest.raises(CommitConflict) as raised:
        commit(upper, changes_of(upper))
    assert [each.path for each in raised.value.conflicts] == [path]
    assert look(overlay.lower) == before
    done = commit(upper, changes_of(upper), on_conflict="skip")
    assert path in {each.path for each in done.skipped} and path not in {each.path for each in done.written}
    commit(upper, changes_of(upper), on_conflict="force")
    after = look(overlay.lower)
    assert without(after) == without(overlay.view)
    upper.drop()


def without(found: dict[str, list[object]]) -> dict[str, list[object]]:
    """What was found, without what the host did and did not undo."""
    return {name: each for name, each in found.items() if name not in ("second", "other")}


def test_what_nobody_changed_is_no_conflict(overlay: Overlay) -> None:
    upper = changed(overlay)
    (overlay.lower / "unrelated").write_text("host")
    assert len(commit(upper, changes_of(upper)).written) == 4
    upper.drop()


def test_a_clock_set_back_makes_every_path_one(overlay: Overlay, monkeypatch: pytest.MonkeyPatch) -> None:
    upper = changed(overlay)
    ahead = upper.tree.opening.ahead_ns - 3_600_000_000_000
    monkeypatch.setattr(conflict, "clock_ahead_ns", lambda: ahead)
    with pytest.raises(CommitConflict, match="set back"):
        commit(upper, changes_of(upper))
    assert commit(upper, changes_of(upper), on_conflict="skip").written == ()
    upper.drop()


def test_what_was_changed_at_the_moment_of_the_opening(tmp_path: Path) -> None:
    """Nothing that comes after it is missed; what came before it is known as such where stamps are fine enough."""
    magic, early = file_system(tmp_path), 0
    for round_ in range(ROUNDS):
        before, after = tmp_path / f"before-{round_}", tmp_path / f"after-{round_}"
        before.write_text("x")
        if round_ % 2:
            before.stat()
            before.write_text("y")
        opening = Opening.now(magic)
        after.write_text("x")
        early += conflict.changed_since(State.of(before.stat()), opening)
        assert conflict.changed_since(State.of(after.stat()), opening)
    assert early == 0 or version() < (6, 13) or not of_magic(magic).multigrain


def test_a_server_s_clock_is_not_believed() -> None:
    assert conflict.clock_trouble(Opening.now(), 0x6969) is not None
    assert conflict.clock_trouble(Opening.now(), 0xEF53) is None


@pytest.mark.parametrize("magic", [0x4D44, 0x2011BAB0])
def test_what_a_disk_does_not_keep_is_not_believed(magic: int) -> None:
    trouble = conflict.clock_trouble(Opening.now(), magic)
    assert trouble is not None and "keeps no time of change" in trouble
    assert conflict.clock_trouble(Opening.now(), 0xEF53) is None, "control"


def test_a_stamp_of_whole_seconds_is_held_against_the_second_of_the_opening(tmp_path: Path) -> None:
    found, second = State.of(tmp_path.stat()), 1_000_000_000
    opening = Opening(5 * second + 700_000_000, 0)
    before = (4 * second, 5 * second - 1, 5 * second + 1)
    since = (5 * second, opening.realtime_ns, 6 * second)
    seen = {stamp: conflict.changed_since(found._replace(ctime_ns=stamp), opening) for stamp in (*before, *since)}
    assert seen == {**dict.fromkeys(before, False), **dict.fromkeys(since, True)}


def test_two_workspaces_over_one_tree_and_the_second_is_told(overlay: Overlay, tmp_path: Path) -> None:
    first = changed(overlay)
    second = overlay.again(first)
    assert commit(first, changes_of(first)).written
    (overlay.layer / "file").write_text("newer")
    with pytest.raises(CommitConflict):
        commit(second, changes_of(second))
    assert (overlay.lower / "file").read_text() == "new"
    first.drop()
    second.drop()


def test_what_a_commit_itself_left_is_no_conflict_of_the_next(overlay: Overlay) -> None:
    upper = changed(overlay)
    done = commit(upper, changes_of(upper))
    (overlay.layer / "file").write_text("newer")
    commit(upper, changes_of(upper), own=done.stamps)
    assert (overlay.lower / "file").read_text() == "newer"
    upper.drop()


MOVED = """
    Path("file").write_text("new"); os.rename("file", "moved")
    Path("folder/inside").write_text("new"); os.mkdir("fresh"); os.rename("folder/inside", "fresh/inside")
"""


def test_what_was_changed_and_renamed_is_no_conflict(overlay: Overlay) -> None:
    upper = overlay.write(MOVED)
    assert {(each.kind, each.path) for each in changes_of(upper)} >= {("added", "moved"), ("deleted", "file")}
    assert commit(upper, changes_of(upper)).skipped == ()
    assert look(overlay.lower) == overlay.view
    upper.drop()


def test_what_was_changed_and_renamed_is_no_conflict_after_a_part_of_it(overlay: Overlay) -> None:
    """The commit of the part changes the directories that tell whether anybody else did."""
    upper = overlay.write(MOVED)
    own = frozenset[conflict.Stamp]()
    for paths in (["file"], ["fresh"], ["moved"], ["folder"]):
        done = commit(upper, changes_of(upper), paths=paths, own=own)
        assert done.written and not done.skipped
        own |= done.stamps
    assert look(overlay.lower) == overlay.view
    upper.drop()


@pytest.mark.parametrize("part", [[], ["gone"]])
def test_what_the_host_removed_is_not_brought_back(overlay: Overlay, part: list[str]) -> None:
    """Not after a commit of another name of its directory either."""
    upper = changed(overlay)
    (overlay.lower / "file").unlink()
    own = commit(upper, changes_of(upper), paths=part).stamps if part else frozenset[conflict.Stamp]()
    with pytest.raises(CommitConflict) as raised:
        commit(upper, changes_of(upper), own=own)
    assert [each.path for each in raised.value.conflicts] == ["file"]
    assert not (overlay.lower / "file").exists()
    upper.drop()


def test_a_directory_whose_mode_was_committed_is_no_conflict_of_the_next(overlay: Overlay) -> None:
    upper = overlay.write('os.chmod("folder", 0o711)')
    done = commit(upper, changes_of(upper))
    (overlay.layer / "folder").chmod(0o700)
    commit(upper, changes_of(upper), own=done.stamps)
    assert (overlay.lower / "folder").stat().st_mode & 0o777 == 0o700
    upper.drop()


def test_a_link_of_the_cage_leads_no_write_out_of_the_tree(overlay: Overlay, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    upper = overlay.write(f'shutil.rmtree("folder"); os.symlink({str(outside)!r}, "folder"); Path("x").write_text("x")')
    found = changes_of(upper)
    assert [each.risk for each in found if each.path == "folder"] == [("leads-out",)]
    commit(upper, found)
    assert os.listdir(outside) == [] and (overlay.lower / "folder").is_symlink()
    upper.drop()


def swap_for_a_link(tree: Path, outside: Path, stop: threading.Event) -> None:
    link, real, aside = tree / "link", tree / "deep", tree / "aside"
    chance = random.Random(5)
    while not stop.is_set():
        os.symlink(outside, link)
        os.rename(real, aside)
        os.rename(link, real)
        time.sleep(chance.random() / 2000)
        os.unlink(real)
        os.rename(aside, real)
        time.sleep(chance.random() / 500)


def test_a_directory_swapped_for_a_link_meanwhile_leads_nowhere(overlay: Overlay, tmp_path: Path) -> None:
    """Somebody of the host exchanges a directory of the tree for a link to another one, over and over."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (overlay.lower / "deep").mkdir()
    (overlay.lower / "deep" / "er").mkdir()
    time.sleep(0.02)
    upper = overlay.write('Path("deep/er/new").write_text("x"); Path("deep/er/second").write_text("y")')
    stop = threading.Event()
    held = os.open(overlay.lower / "deep" / "er", os.O_RDONLY | os.O_DIRECTORY)
    thread = threading.Thread(target=swap_for_a_link, args=(overlay.lower, outside, stop))
    thread.start()
    refused = 0
    try:
        for _ in range(ROUNDS):
            try:
                commit(upper, changes_of(upper))
            except (CommitConflict, CommitError, OSError):
                refused += 1
            assert os.listdir(outside) == []
            for name in {"new", "second"} & {*os.listdir(held)}:
                os.unlink(name, dir_fd=held)
    finally:
        stop.set()
        thread.join()
    recover()
    assert {*os.listdir(held)} <= {"new", "second"}, "what could not be reached was left for ever"
    assert refused > 0, "no swap came in time"
    for name in os.listdir(held):
        os.unlink(name, dir_fd=held)
    commit(upper, changes_of(upper), on_conflict="force")  # on a busy host none is made between two swaps
    assert {*os.listdir(held)} == {"new", "second"}
    os.close(held)
    assert os.listdir(outside) == []
    upper.drop()
