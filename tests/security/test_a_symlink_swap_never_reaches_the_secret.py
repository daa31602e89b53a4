"""Claim: a thread that flips a symlink in a writable grant while another opens through it never gets the outside."""

from __future__ import annotations

from pathlib import Path

import pytest

from .conftest import Ground
from .harness import caged, policy, uncaged

pytestmark = pytest.mark.guest

ROUNDS = "20000"


def test_a_flipping_symlink_only_ever_gives_the_inside_file(ground: Ground, attack_bin: Path, isolation: str) -> None:
    race = [str(attack_bin / "flip"), str(ground.inside), str(ground.inside / "plain"), str(ground.secret), ROUNDS]
    report = caged(race, policy(isolation, allow=[str(attack_bin)], allow_write=[str(ground.inside)]))

    seen = report["race"].value
    assert seen["secret"] == 0
    assert seen["inside"] > 0 and seen["refused"] > 0, "the race must have been a race"
    assert ground.unharmed


def test_the_same_race_reads_both_files_uncaged(ground: Ground, attack_bin: Path) -> None:
    race = [str(attack_bin / "flip"), str(ground.inside), str(ground.inside / "plain"), str(ground.secret), ROUNDS]

    seen = uncaged(race)["race"].value

    assert seen["secret"] > 0 and seen["inside"] > 0
