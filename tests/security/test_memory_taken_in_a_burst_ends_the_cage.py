"""Claim: without a cgroup, memory that one process or many take in a burst ends the cage long before they have what
they want, of whatever kind it is, however soon it would be given back, and however many of them want a processor.

CONTROL   with a limit that is high enough the same programs take all that they want
ATTACK    one process or 64, which together want many times the limit; each in a session of its own, so that the
          watchdog has a 33rd of the processors while it looks
          watchdog has a 33rd of the processors while it looks. The host is in a session of its own as well: whatever
          else runs in its session would have a part of that
EVIDENCE  each run ends as out of memory, and in two of three with less than half of what was wanted: what samples may
          be late once on a machine that does something else. How much it was where it was measured: docs/limits.md
"""

from __future__ import annotations

import os
import struct
from pathlib import Path
from statistics import median
from typing import Any

import pytest

from pysandbox import Cage, Policy
from pysandbox.probe import cgroups

from .harness import first_line, host_script, wait_until

LIMIT_MB = 256
MOST = 256  # processes that attacks/burst.c counts
pytestmark = pytest.mark.skipif(
    "memory" in cgroups.find_cgroup().controllers, reason="the kernel's controller counts all"
)


class Burst:
    """attacks/burst.c and the file in which each of its processes counts what it has taken."""

    def __init__(self, attacks: Path, counts: Path) -> None:
        self.program, self.counts = attacks / "burst", counts
        self.counts.write_bytes(bytes(8 * (MOST + 1)))

    def taken_mb(self) -> int:
        return sum(struct.unpack(f"{MOST + 1}Q", self.counts.read_bytes())[1:]) >> 20

    def options(self, limit: int, kind: str) -> dict[str, Any]:
        allowed = "relaxed" if kind == "memfd" else "default"
        return {"memory_mb": limit, "allow": [str(self.program)], "allow_write": [str(self.counts)],
                "seccomp": allowed, "tmp_mb": 4096}  # fmt: skip

    def argv(self, kind: str, processes: int, megabytes: int) -> list[str]:
        return [str(self.program), kind, str(processes), str(megabytes), str(self.counts)]


@pytest.fixture
def burst(attack_bin: Path, tmp_path: Path) -> Burst:
    return Burst(attack_bin, tmp_path / "counts")


KINDS = [
    ("anon", 1, 1100),
    ("anon", 64, 100),
    ("freed", 1, 1100),
    ("shared", 64, 60),
    ("memfd", 64, 60),
    ("tmpfs", 64, 60),
]


@pytest.mark.parametrize(("kind", "processes", "megabytes"), KINDS)
def test_a_burst_ends_before_it_has_half(burst: Burst, kind: str, processes: int, megabytes: int) -> None:
    assert median(taken_by(burst, burst.argv(kind, processes, megabytes))) < processes * megabytes / 2


@pytest.mark.parametrize("kind", ["anon", "shared", "memfd"])
def test_a_crowd_does_not_keep_the_watchdog_from_looking(burst: Burst, kind: str) -> None:
    assert median(taken_by(burst, [*burst.argv(kind, 64, 60), "apart"])) < 64 * 60 / 2


HOST = """
    import os, sys
    from pysandbox import Cage, Policy
    os.setsid()
    options, argv = eval(sys.argv[1])
    with Cage(Policy(**options)) as cage:
        print(cage.run(argv, timeout=60).reason, flush=True)
"""


def taken_by(burst: Burst, argv: list[str]) -> list[int]:
    """Megabytes, of three cages."""
    taken = []
    for _ in range(3):
        burst.counts.write_bytes(bytes(8 * (MOST + 1)))
        with host_script(HOST, repr((burst.options(LIMIT_MB, argv[1]), argv))) as host:
            assert first_line(host, within=90) == b"oom\n"
        taken.append(burst.taken_mb())
    return taken


@pytest.mark.parametrize("kind", ["anon", "memfd"])
def test_the_control_takes_what_it_may(burst: Burst, kind: str) -> None:
    with Cage(Policy(**burst.options(1024, kind))) as cage, cage.spawn(burst.argv(kind, 4, 70)) as taking:
        assert wait_until(lambda: burst.taken_mb() >= 4 * 69, within=60), os.fspath(burst.counts)
        assert taking.poll() is None
        taking.kill()
