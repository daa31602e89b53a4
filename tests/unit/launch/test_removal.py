"""Removal of what a cage could write: what a hostile command left in a directory goes, what holds it is not touched."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from pysandbox.launch import removal
from pysandbox.launch.removal import remove_tree


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_directory_that_cannot_be_read_goes_too(tmp_path: Path) -> None:
    closed = tmp_path / "scratch" / "closed"
    (closed / "deep").mkdir(parents=True)
    (closed / "deep" / "file").touch()
    (closed / "deep").chmod(0)
    closed.chmod(0)
    (tmp_path / "scratch").chmod(0)
    remove_tree(str(tmp_path / "scratch"))
    assert not (tmp_path / "scratch").exists()


def test_what_is_gone_already_changes_nothing(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    remove_tree(str(tmp_path / "scratch"))
    remove_tree(str(tmp_path / "none" / "scratch"))
    assert mode(tmp_path) == 0o755


def test_the_directory_that_holds_it_keeps_its_mode(tmp_path: Path) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    tmp_path.chmod(0o555)
    remove_tree(str(scratch))
    assert mode(tmp_path) == 0o555
    tmp_path.chmod(0o755)


def test_a_link_goes_and_what_it_leads_to_stays(tmp_path: Path) -> None:
    precious, scratch = tmp_path / "precious", tmp_path / "scratch"
    (precious / "inner").mkdir(parents=True)
    (precious / "inner" / "file").touch()
    precious.chmod(0o500)
    (scratch / "a").mkdir(parents=True)
    (scratch / "a" / "link").symlink_to(precious)
    (scratch / "link").symlink_to(precious)
    remove_tree(str(scratch))
    assert not scratch.exists() and (precious / "inner" / "file").exists() and mode(precious) == 0o500
    precious.chmod(0o700)


def test_a_link_in_the_place_of_the_directory_itself_goes_alone(tmp_path: Path) -> None:
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious" / "file").touch()
    (tmp_path / "scratch").symlink_to(tmp_path / "precious")
    remove_tree(str(tmp_path / "scratch"))
    assert not (tmp_path / "scratch").is_symlink() and (tmp_path / "precious" / "file").exists()


@pytest.mark.parametrize("levels", [3, 3000])
def test_any_depth_goes_with_three_descriptors(tmp_path: Path, levels: int) -> None:
    root = at = os.open(tmp_path, os.O_RDONLY)
    os.mkdir("scratch", dir_fd=root)
    at = os.open("scratch", os.O_RDONLY, dir_fd=root)
    for _ in range(levels):
        os.mkdir("deeper", dir_fd=at)
        Path(f"/proc/self/fd/{at}/beside").touch()
        below = os.open("deeper", os.O_RDONLY, dir_fd=at)
        os.close(at)
        at = below
    os.close(at)
    os.close(root)
    remove_tree(str(tmp_path / "scratch"))
    assert not (tmp_path / "scratch").exists()


def test_more_names_than_one_look_reads_go_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(removal, "SLICE", 3)
    for n in range(20):
        (tmp_path / "scratch" / str(n) / "inner").mkdir(parents=True)
        for m in range(8):
            (tmp_path / "scratch" / str(n) / f"{m}").touch()
    remove_tree(str(tmp_path / "scratch"))
    assert not (tmp_path / "scratch").exists()


def test_a_name_of_ours_that_is_taken_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "scratch" / ".removed-0" / "x").mkdir(parents=True)
    (tmp_path / "scratch" / "a" / "b" / "c" / "d").mkdir(parents=True)
    remove_tree(str(tmp_path / "scratch"))
    assert not (tmp_path / "scratch").exists()
