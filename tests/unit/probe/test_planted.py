"""Absences: names that were not there, asked for again and again."""

from __future__ import annotations

import os
import resource
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from pysandbox.probe.planted import Absences

NAMES = (".claude/hooks", ".envrc", "there/below", "there/deep/er")


def written(top: Path) -> str:
    (top / ".envrc").write_text("")
    return ".envrc"


def made_with_what_it_lies_in(top: Path) -> str:
    (top / ".claude").mkdir()
    (top / ".claude/hooks").mkdir()
    return ".claude/hooks"


def made_in_what_was_there(top: Path) -> str:
    (top / "there/below").write_text("")
    return "there/below"


def led_to_by_a_link(top: Path) -> str:
    (top / ".envrc").symlink_to("nowhere")
    return ".envrc"


def led_through_a_link(top: Path) -> str:
    (top / ".claude").symlink_to("elsewhere")
    return ".claude/hooks"


@pytest.mark.parametrize(
    "appear",
    [written, made_with_what_it_lies_in, made_in_what_was_there, led_to_by_a_link, led_through_a_link],
)
def test_what_appears_is_told_however_often_it_was_asked_for(tmp_path: Path, appear: Callable[[Path], str]) -> None:
    (tmp_path / "there").mkdir()
    absent, since = Absences([(str(tmp_path), name) for name in NAMES]), time.time_ns()
    assert [absent(since) for _ in range(4)] == [()] * 4
    name = appear(tmp_path)
    assert absent(since) == (f"{tmp_path}/{name}",)
    assert absent(since) == (f"{tmp_path}/{name}",)


def a_link(way: Path, target: Path) -> None:
    way.symlink_to("in")
    target.mkdir()


def an_absolute_link(way: Path, target: Path) -> None:
    way.symlink_to(target)
    target.mkdir()


def a_dangling_link(way: Path, _: Path) -> None:
    way.symlink_to("in")


def a_loop(way: Path, _: Path) -> None:
    way.symlink_to(way.name)


def a_shut_directory(way: Path, _: Path) -> None:
    way.mkdir(mode=0)


def nothing_made(way: Path, target: Path) -> bool:
    return False


def shut_again(way: Path, target: Path) -> bool:
    way.chmod(0o700)
    (way / "hooks").mkdir()
    way.chmod(0)
    return True


def opened(way: Path, target: Path) -> bool:
    way.chmod(0o700)
    (way / "hooks").mkdir()
    return True


def made_behind_it(way: Path, target: Path) -> bool:
    target.mkdir(exist_ok=True)
    (target / "hooks").mkdir()
    return True


def replaced_by_a_directory(way: Path, target: Path) -> bool:
    way.unlink()
    (way / "hooks").mkdir(parents=True)
    return True


def replaced_by_another_link(way: Path, target: Path) -> bool:
    way.unlink()
    way.symlink_to("elsewhere")
    return True


LINKS = (a_link, an_absolute_link, a_dangling_link, a_loop)
BEHIND = [
    *((way, nothing_made) for way in (*LINKS, a_shut_directory)),
    *((way, change) for way in LINKS for change in (replaced_by_a_directory, replaced_by_another_link)),
    *((way, made_behind_it) for way in LINKS[:3]),
    *((a_shut_directory, change) for change in (shut_again, opened)),
]


@pytest.mark.parametrize(("way", "change"), BEHIND)
def test_what_was_in_the_way_before_is_nothing_new_and_what_is_made_behind_it_is(
    tmp_path: Path, way: Callable[[Path, Path], None], change: Callable[[Path, Path], bool]
) -> None:
    way(tmp_path / ".claude", tmp_path / "in")
    absent = Absences([(str(tmp_path), ".claude/hooks")])
    time.sleep(0.1)  # longer than a tick, by which the times of files are told apart
    since = time.time_ns()
    assert absent(since) == ()
    is_made = change(tmp_path / ".claude", tmp_path / "in")
    assert absent(since) == ((f"{tmp_path}/.claude/hooks",) if is_made else ())


@pytest.mark.parametrize("is_new", [False, True])
def test_a_name_that_is_a_link_to_nothing_is_told_when_it_is_new_or_leads_somewhere(
    tmp_path: Path, is_new: bool
) -> None:
    absent, since = Absences([(str(tmp_path), ".envrc")]), time.time_ns()
    (tmp_path / ".envrc").symlink_to("said")
    if not is_new:
        time.sleep(0.1)
        since = time.time_ns()
        assert absent(since) == ()
        (tmp_path / "said").touch()
    assert absent(since) == (f"{tmp_path}/.envrc",)


def test_what_cannot_be_looked_for_counts_as_there(tmp_path: Path) -> None:
    """With no descriptor left; a word too many is better than one too few."""
    (tmp_path / "there").mkdir()
    absences = Absences([(str(tmp_path), name) for name in NAMES])
    since = time.time_ns()
    assert absences(since) == ()
    (tmp_path / ".envrc").write_text("")
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    held = os.open("/dev/null", os.O_RDONLY)
    resource.setrlimit(resource.RLIMIT_NOFILE, (held + 2, hard))  # one, for the tree
    try:
        found = absences(since)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        os.close(held)
    assert any(each.endswith(".envrc") for each in map(str, found))
