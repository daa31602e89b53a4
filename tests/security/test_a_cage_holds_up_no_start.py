"""Claim: what a cage does to a placeholder, which stands for a denied name in a directory that it may read, holds up no
start of another cage with that denial, and uncovers nothing.

A placeholder is a file like any other there, so that a cage may lock it. What counts is a lock in the user's own state.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from pysandbox import Cage, Policy
from pysandbox.cage import PIPE
from pysandbox.launch.placeholder import MODE, TEXT

PYTHON = "/usr/bin/python3"
HOLD = """
import fcntl, os, sys, time
held = os.open(sys.argv[1], os.O_RDONLY)
until = time.monotonic() + 60
while time.monotonic() < until:
    try:
        fcntl.flock(held, int(sys.argv[2]) | fcntl.LOCK_NB)
        break
    except BlockingIOError:
        pass
print("held", flush=True)
sys.stdin.read()
"""
SHARED, ALONE = 1, 2  # flock(2)


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    (tmp_path / "tree").mkdir()
    return tmp_path / "tree"


@contextmanager
def holder(tree: Path, how: int) -> Iterator[None]:
    """Another cage, which may read the tree, and has the lock."""
    argv = [PYTHON, "-I", "-S", "-c", HOLD, str(tree / "secret"), str(how)]
    with Cage(Policy(allow=[str(tree)])).spawn(argv, stdin=PIPE, stdout=PIPE) as process:
        assert process.stdout is not None and process.stdout.readline() == b"held\n"
        yield


def denying(tree: Path) -> Cage:
    return Cage(Policy(allow_write=[str(tree)], deny=[str(tree / "secret")]))


@pytest.mark.parametrize("how", [SHARED, ALONE])
def test_who_holds_a_lock_on_it_holds_up_no_start(tree: Path, how: int) -> None:
    def refused(cage: Cage) -> bool:
        return cage.run(["/bin/sh", "-c", f"echo > {tree}/secret"]).returncode != 0

    with denying(tree) as first:
        assert refused(first), "CONTROL"
        if how == ALONE:  # a host of before has left it, and nobody has its lock
            (tree / "secret").unlink()
            first.close()
            left(tree)
        with holder(tree, how):
            with denying(tree) as second:
                assert refused(second), "it starts, and is covered"
            assert (tree / "secret").exists(), "whose lock it is, it is kept for"
            with denying(tree) as third:
                assert refused(third), "and once more"
    with denying(tree) as last:
        assert refused(last)
    assert not os.listdir(tree), "the last one removes it"
    assert not os.listdir(tree.parent / "state/pysandbox/placeholders")


def left(tree: Path) -> None:
    (tree / "secret").write_bytes(TEXT)
    (tree / "secret").chmod(MODE)


def test_without_a_state_the_lock_on_the_file_counts(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody's user has none; what holds up a start is an error then, and no cage without its denial."""
    monkeypatch.setenv("XDG_STATE_HOME", "/proc/nowhere")
    with denying(tree) as first:
        with denying(tree) as second:
            assert second.run(["/bin/sh", "-c", f"echo > {tree}/secret"]).returncode
        assert (tree / "secret").exists()
        assert first.run(["/bin/sh", "-c", f"echo > {tree}/secret"]).returncode
    assert not os.listdir(tree)
