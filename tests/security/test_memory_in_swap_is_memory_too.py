"""Claim: what a cage has moved to swap counts for memory_mb, on a host without the controller for it.

A process may ask the kernel to move its pages there (MADV_PAGEOUT): then they are in no count of what is resident, and
the only limit would be how much swap the host has.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from _support.kept_runs import Home

from .harness import caged, policy, program, uncaged

pytestmark = pytest.mark.swap

LIMIT, TAKEN, RESIDENT = 64, 256, 48  # MiB
AWAY = """
    import mmap, time

    def sizes():
        rows = dict(line.split(":") for line in open("/proc/self/status") if ":" in line)
        return [int(rows[name].split()[0]) >> 10 for name in ("VmSwap", "VmRSS")]

    def take():
        kept = []
        for _ in range(TAKEN // 8):
            kept.append(mmap.mmap(-1, 8 << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS))
            for page in range(0, 8 << 20, mmap.PAGESIZE):
                kept[-1][page] = 1 + page % 251
            kept[-1].madvise(21)  # MADV_PAGEOUT
        return kept

    kept = take()
    attempt("sizes", sizes)
    time.sleep(WAIT)
"""


def test_the_control_has_it_in_swap() -> None:
    moved, resident = uncaged(program(AWAY, TAKEN=TAKEN, WAIT=0))["sizes"].value
    assert moved > 2 * LIMIT and resident < RESIDENT


@pytest.mark.parametrize("isolation", ["full", "landlock"])
def test_a_cage_that_moves_it_there_ends(isolation: str) -> None:
    report = caged(program(AWAY, TAKEN=TAKEN, WAIT=30), policy(isolation, memory_mb=LIMIT))
    assert report.result is not None and report.result.reason == "oom", report


def test_a_kept_run_that_moves_it_there_ends(tmp_path: Path) -> None:
    home, argv = Home(tmp_path), program(AWAY, TAKEN=TAKEN, WAIT=30)
    command = ["--memory-mb", str(LIMIT), "--", *argv]
    for _ in range(3):
        assert home.run(*command).code == 137
    assert home.entries and home.records()[-1]["data"]["reason"] == "oom"
