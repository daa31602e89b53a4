"""Scratch directories: what a hostile command left in one goes, and what holds it is not touched."""

from __future__ import annotations

import stat
from pathlib import Path

from pysandbox.launch.scratch import remove_scratch


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_directory_that_cannot_be_read_goes_too(tmp_path: Path) -> None:
    closed = tmp_path / "scratch" / "closed"
    (closed / "deep").mkdir(parents=True)
    closed.chmod(0)
    remove_scratch(str(tmp_path / "scratch"))
    assert not (tmp_path / "scratch").exists()


def test_what_is_gone_already_changes_nothing(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    remove_scratch(str(tmp_path / "scratch"))
    assert mode(tmp_path) == 0o755


def test_the_directory_that_holds_it_keeps_its_mode(tmp_path: Path) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    tmp_path.chmod(0o555)
    remove_scratch(str(scratch))
    assert mode(tmp_path) == 0o555
    tmp_path.chmod(0o755)
