"""A directory in which nothing is to be done is not listed again, until something in it changes."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from pysandbox.probe.opening import coarse_now
from pysandbox.probe.unchanged import COARSEST_NS, Stamp, is_unchanged, remember_unchanged, stamp_of

LONG_AGO = time.time_ns() - 10 * COARSEST_NS


def old(path: Path) -> Stamp:
    """Its stamp as it would be had it not been touched for a while: no clock of a test sets a ctime back."""
    found = stamp_of(str(path))
    assert found is not None
    return found._replace(changed_ns=LONG_AGO, modified_ns=LONG_AGO)


def test_what_is_not_there_needs_nothing(tmp_path: Path) -> None:
    assert is_unchanged(f"{tmp_path}/none", stamp_of(f"{tmp_path}/none"))


def test_what_nobody_has_looked_through_is_not_unchanged(tmp_path: Path) -> None:
    assert not is_unchanged(str(tmp_path), stamp_of(str(tmp_path)))


def test_unchanged_as_long_as_its_stamp_is_the_same_and_until_its_time(tmp_path: Path) -> None:
    path, stamp = str(tmp_path), old(tmp_path)
    remember_unchanged(path, stamp)
    assert is_unchanged(path, stamp)
    assert not is_unchanged(path, stamp._replace(changed_ns=LONG_AGO + 1))
    assert not is_unchanged(path, stamp._replace(inode=stamp.inode + 1))
    remember_unchanged(path, stamp, until=time.time() - 1)
    assert not is_unchanged(path, stamp)


def test_a_young_stamp_is_not_believed(tmp_path: Path) -> None:
    """What changes within the same tick of the file system's clock gets the same stamp."""
    path, stamp = str(tmp_path), stamp_of(str(tmp_path))
    assert stamp is not None
    remember_unchanged(path, old(tmp_path))
    remember_unchanged(path, stamp)
    assert not is_unchanged(path, stamp)
    assert not is_unchanged(path, old(tmp_path))  # and what was known before is forgotten


@pytest.mark.parametrize(
    "change",
    [
        lambda path: (path / "new").mkdir(),
        lambda path: path.chmod(0o755),
        lambda path: (path.rename(f"{path}.was"), path.mkdir()),
        lambda path: (path.rename(f"{path}.was"), os.symlink(f"{path}.was", path)),
    ],
    ids=["an entry", "mode", "another directory", "a link in its place"],
)
def test_a_change_gives_another_stamp(tmp_path: Path, change: Callable[[Path], object]) -> None:
    path = tmp_path / "store"
    path.mkdir(0o700)
    os.utime(path, ns=(LONG_AGO, LONG_AGO))
    before = stamp_of(str(path))
    assert before is not None
    while coarse_now() <= before.changed_ns:  # a stamp is older than that before it is believed
        pass
    change(path)
    assert stamp_of(str(path)) != before
