"""Claim: what a cage does to a directory that it was granted holds up nobody's commit to that.

Commits take their turns by a file of the user's own state, which no cage is shown; a lock on the directory itself is
anybody's who may read it.
"""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

import pytest

from pysandbox import Cage, Policy
from pysandbox.cage import PIPE
from pysandbox.errors import CommitError
from pysandbox.workspace.commit_lock import locked

PYTHON = "/usr/bin/python3"
HOLD = """
import fcntl, os, sys
fcntl.flock(os.open(sys.argv[1], os.O_RDONLY), fcntl.LOCK_EX)
print("held", flush=True)
sys.stdin.read()
"""


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path / "state"


def is_locked(directory: Path) -> bool:
    fd = os.open(directory, os.O_RDONLY)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return False
    except BlockingIOError:
        return True
    finally:
        os.close(fd)


@pytest.mark.parametrize("grant", ["allow", "allow_write"])
def test_a_lock_on_the_tree_holds_up_no_commit(grant: str, tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    tree.mkdir()
    path = str(tree)
    with Cage(Policy(cow=[path])) as cage, Cage(Policy(**{grant: [path]})) as other:
        cage.run([PYTHON, "-I", "-S", "-c", f"open({path + '/new'!r}, 'w').write('new')"]).check()
        with other.spawn([PYTHON, "-I", "-S", "-c", HOLD, path], stdin=PIPE, stdout=PIPE) as holder:
            assert holder.stdout is not None and holder.stdin is not None
            assert holder.stdout.readline() == b"held\n"
            assert is_locked(tree), "the cage holds the lock that it asked for"
            cage.pause()
            cage.workspace.commit()
            assert (tree / "new").read_text() == "new"
            assert is_locked(tree)
            holder.stdin.close()
            holder.wait()


def test_two_commits_of_ours_still_exclude_each_other(tmp_path: Path, state: Path) -> None:
    fd, again = (os.open(tmp_path, os.O_RDONLY | os.O_DIRECTORY) for _ in range(2))
    try:
        with locked(str(tmp_path), fd):
            with pytest.raises(CommitError, match="under way"), locked(str(tmp_path), again):
                pass
            place = state / "pysandbox" / "commits"
            assert place.stat().st_mode & 0o077 == 0
            with pytest.raises(CommitError, match="under way"), locked(str(tmp_path), again):
                pass
        with locked(str(tmp_path), again):
            pass
        assert list(place.iterdir()) == [], "the file goes with its last use"
    finally:
        for each in (fd, again):
            os.close(each)


def test_the_file_lies_where_no_cage_is_led(tmp_path: Path, state: Path) -> None:
    fd = os.open(tmp_path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        with locked(str(tmp_path), fd):
            (name,) = (state / "pysandbox" / "commits").iterdir()
            look = ["/bin/sh", "-c", 'test -e "$1" && echo there; exec true', "sh"]
            control = Cage(Policy(allow=[str(tmp_path)])).run([*look, str(state)]).check()
            assert control.stdout == "there\n"
            assert Cage(Policy(allow=[str(tmp_path)])).run([*look, str(name)]).check().stdout == ""
    finally:
        os.close(fd)
