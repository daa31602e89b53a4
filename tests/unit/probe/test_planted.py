"""Absences: names that were not there, asked for again and again."""

from __future__ import annotations

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
    absent = Absences([(str(tmp_path), name) for name in NAMES])
    assert [absent() for _ in range(4)] == [()] * 4
    name = appear(tmp_path)
    assert absent() == (f"{tmp_path}/{name}",)
    assert absent() == (f"{tmp_path}/{name}",)
