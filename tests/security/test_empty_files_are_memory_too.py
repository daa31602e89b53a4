"""Claim: what a cage takes of the kernel's memory by files without content is bounded by the size of its memory file
systems, and counts for memory_mb.
"""

from __future__ import annotations

import pytest

import pysandbox
from pysandbox import Policy

from .harness import caged, policy, program, uncaged

pytestmark = pytest.mark.guest

MANY = """
    def fill(place):
        made = 0
        try:
            for branch in range(200):
                os.mkdir(f"{place}/{branch}")
                for leaf in range(1000):
                    os.mknod(f"{place}/{branch}/{leaf:0200d}")
                    made += 1
        finally:
            say("made", made)
    for place in PLACES:
        attempt(place, fill, place)
"""
OWN = ["/tmp", "/dev/shm"]


def test_there_are_as_many_inodes_as_pages() -> None:
    report = caged(program(MANY, PLACES=OWN), policy(tmp_mb=32))

    assert report.differs({**dict.fromkeys(OWN, "ENOSPC"), "made": None}) == {}
    assert report["made"].value <= 32 * 256


def test_they_end_a_cage_that_has_less_memory_than_that() -> None:
    """200,000 of them take the kernel some 250 MiB: a whole machine with memory_mb = 64 and none of it counted."""
    assert pysandbox.run(program(MANY, PLACES=OWN), policy=Policy(memory_mb=64), timeout=60).reason == "oom"


def test_a_tree_of_many_small_files_still_fits() -> None:
    report = caged(program(MANY, PLACES=["/tmp"]), policy())

    assert report.differs({"/tmp": None, "made": None}) == {} and report["made"].value == 200_000


def test_the_control_has_no_such_limit(tmp_path_factory: pytest.TempPathFactory) -> None:
    few = MANY.replace("range(200)", "range(10)")
    report = uncaged(program(few, PLACES=[str(tmp_path_factory.mktemp("many"))]))

    assert report["made"].value == 10_000
