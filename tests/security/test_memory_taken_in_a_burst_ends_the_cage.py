"""Claim: without a cgroup, memory that one process or many take in a burst ends the cage before there is twice of
memory_mb, of whatever kind it is and however soon it would be given back.
"""

from __future__ import annotations

import os
import struct
from pathlib import Path

import pytest

from pysandbox import Cage, Policy, Result
from pysandbox.probe import cgroups

from .harness import wait_until

LIMIT_MB = 256
MOST = 256  # processes that attacks/burst.c counts
pytestmark = pytest.mark.skipif("memory" in cgroups.look().controllers, reason="the kernel's controller counts all")


class Burst:
    """attacks/burst.c and the file in which each of its processes counts what it has taken."""

    def __init__(self, attacks: Path, counts: Path) -> None:
        counts.write_bytes(bytes(8 * (MOST + 1)))
        self.program, self.counts = attacks / "burst", counts

    def taken_mb(self) -> int:
        return sum(struct.unpack(f"{MOST + 1}Q", self.counts.read_bytes())[1:]) >> 20

    def policy(self, limit: int, kind: str) -> Policy:
        allowed = "relaxed" if kind == "memfd" else "default"
        return Policy(
            memory_mb=limit, allow=[str(self.program)], allow_write=[str(self.counts)], seccomp=allowed, tmp_mb=4096
        )

    def argv(self, kind: str, processes: int, megabytes: int) -> list[str]:
        return [str(self.program), kind, str(processes), str(megabytes), str(self.counts)]


@pytest.fixture
def burst(attack_bin: Path, tmp_path: Path) -> Burst:
    return Burst(attack_bin, tmp_path / "counts")


@pytest.mark.parametrize(
    ("kind", "processes", "megabytes"),
    [("anon", 1, 1100), ("anon", 64, 100), ("freed", 1, 700), ("shared", 64, 60), ("memfd", 64, 60), ("tmpfs", 64, 60)],
)
def test_a_burst_ends_before_twice_the_limit(burst: Burst, kind: str, processes: int, megabytes: int) -> None:
    with Cage(burst.policy(LIMIT_MB, kind)) as cage:
        result: Result = cage.run(burst.argv(kind, processes, megabytes), timeout=60)

    assert result.reason == "oom", result
    assert burst.taken_mb() < 2 * LIMIT_MB


@pytest.mark.parametrize("kind", ["anon", "memfd"])
def test_the_control_takes_what_it_may(burst: Burst, kind: str) -> None:
    with Cage(burst.policy(1024, kind)) as cage, cage.spawn(burst.argv(kind, 4, 70)) as taking:
        assert wait_until(lambda: burst.taken_mb() >= 4 * 69, within=60), os.fspath(burst.counts)
        assert taking.poll() is None
        taking.kill()
