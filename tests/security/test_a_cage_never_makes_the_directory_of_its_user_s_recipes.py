"""Claim: a cage that may write the home directory does not make the directories whose recipes count as its user's.

Where ~/.config/pysandbox or ~/.local/state/pysandbox is absent, it is made, empty, before the cage starts, and hidden.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from pysandbox import Cage

from .conftest import Ground
from .harness import caged, policy, program, uncaged

ATTACK = """
    for place in PLACES:
        attempt("make " + place, os.makedirs, HOME + "/" + place + "/pysandbox/recipes", 0o700)
        attempt("plant " + place, lambda: open(HOME + "/" + place + "/pysandbox/base.toml", "x").close())
        attempt("move " + place, os.rename, HOME + "/" + place, HOME + "/elsewhere")
"""
PLACES = (".config", ".local/state")


@pytest.fixture
def home(ground: Ground, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(ground.inside))
    for name in ("XDG_CONFIG_HOME", "XDG_STATE_HOME"):
        monkeypatch.delenv(name, raising=False)
    return ground.inside


def attack(home: Path) -> list[str]:
    return program(ATTACK, HOME=str(home), PLACES=PLACES)


def test_they_are_made_first_and_nothing_is_planted(home: Path) -> None:
    report = caged(attack(home), policy(allow_write=[str(home)]))

    assert {each.errno for each in report.attempts.values()} <= {"EROFS", "EBUSY", "EACCES", "EXDEV", "ENOENT"}
    for place in PLACES:
        made = home / place / "pysandbox"
        assert (list(made.iterdir()), stat.S_IMODE(made.stat().st_mode)) == ([], 0o700)


def test_outside_of_a_cage_they_are_made(home: Path) -> None:
    assert uncaged(attack(home))["make .config"].errno is None


def test_a_link_that_an_earlier_cage_left_is_not_followed(home: Path, ground: Ground) -> None:
    target = ground.outside / "target"
    target.mkdir()
    (home / ".config").symlink_to(target)
    Cage(policy(allow_write=[str(home)])).run(["/bin/true"])
    assert list(target.iterdir()) == []


def test_a_cage_that_writes_elsewhere_makes_nothing(home: Path) -> None:
    (home / "project").mkdir()
    Cage(policy(allow_write=[str(home / "project")])).run(["/bin/true"])
    assert os.listdir(home) == ["project"] or ".config" not in os.listdir(home)


def test_where_it_cannot_be_made_a_note_says_so(home: Path) -> None:
    (home / ".config").touch()
    result = Cage(policy(allow_write=[str(home)])).run(["/bin/true"])
    assert any(".config/pysandbox" in note.message and "counts" in note.message for note in result.notes)
