"""Two commits to one tree at the same time: one is written whole, the other is refused, and nothing is mixed."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from _support.overlays import DirectoryUpper, Overlay, look
from pysandbox.errors import CommitConflict, CommitError
from pysandbox.workspace.changes import changes_of
from pysandbox.workspace.commit import commit
from pysandbox.workspace.recovery import interrupted, recover

ROUNDS = 12
NAMES = [f"file{number}" for number in range(20)]
WROTE, CONFLICT, BUSY, WRONG = 10, 11, 12, 13


@pytest.fixture
def overlays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Overlay, Overlay]]:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    made = Overlay(tmp_path / "first"), Overlay(tmp_path / "second")
    for overlay in made:
        for name in NAMES:
            (overlay.lower / name).write_text("old")
    time.sleep(0.02)
    yield made
    for overlay in made:
        overlay.remove()


def in_a_child(upper: DirectoryUpper, go: int) -> int:
    """A commit that waits for the word; its pid."""
    child = os.fork()
    if child:
        return child
    code = WRONG
    try:
        found = changes_of(upper)
        os.read(go, 1)
        commit(upper, found)
        code = WROTE
    except CommitConflict:
        code = CONFLICT
    except CommitError as error:
        code = BUSY if "under way" in str(error) else WRONG
    finally:
        os._exit(code)


def test_one_is_written_whole_and_the_other_is_refused(overlays: tuple[Overlay, Overlay], tmp_path: Path) -> None:
    one, other = overlays
    written = [overlay.write(f"for name in {NAMES}: Path(name).write_text({text!r})\nPath({text!r}).write_text('x')")
               for overlay, text in ((one, "one"), (other, "other"))]  # fmt: skip
    shutil.copytree(one.lower, tmp_path / "pristine")
    shutil.rmtree(other.lower)
    os.symlink(one.lower, other.lower)  # both are of one tree from now on
    wanted = [overlay.view for overlay in overlays]
    seen = []
    for _ in range(ROUNDS):
        for path in one.lower.iterdir():
            path.unlink()
        time.sleep(0.01)
        for path in (tmp_path / "pristine").iterdir():
            shutil.copy2(path, one.lower)
        now = time.time_ns() + 20_000_000
        time.sleep(0.03)
        uppers = [DirectoryUpper(overlay.place, each.tree.opening._replace(realtime_ns=now))
                  for overlay, each in zip(overlays, written, strict=True)]  # fmt: skip
        wait, go = os.pipe()
        children = [in_a_child(upper, wait) for upper in uppers]
        os.write(go, b"gg")
        codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
        for fd in (wait, go):
            os.close(fd)
        for upper in uppers:
            upper.drop()
        assert codes.count(WROTE) == 1 and {*codes} <= {WROTE, CONFLICT, BUSY}, codes
        after, expected = look(one.lower), wanted[codes.index(WROTE)]
        assert {name: each[2] for name, each in after.items()} == {name: each[2] for name, each in expected.items()}
        assert recover() == [] and interrupted() == []
        seen.append(codes)
    print(seen)
    for upper in written:
        upper.drop()
