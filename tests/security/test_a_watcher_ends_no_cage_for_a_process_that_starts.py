"""Claim: memory that cannot be looked at ends a cage, and a command that is about to start does not look like that.

Where programs may make memory files, the watchdog reads every process's descriptors. One that cage-init has forked is
as unreadable as cage-init until it executes; one that made itself so stays so.
"""

from __future__ import annotations

import time

import pytest

from pysandbox import Cage, Policy

WATCHED = Policy(memory_mb=512, seccomp="relaxed", monitor=True)
CLOSED = "import ctypes, sys, time; ctypes.CDLL(None).prctl(4, 0, 0, 0, 0) if int(sys.argv[1]) else 0; time.sleep(20)"


@pytest.mark.slow
def test_no_command_that_starts_ends_its_cage() -> None:
    until = time.monotonic() + 10
    while time.monotonic() < until:
        with Cage(WATCHED) as cage:
            commands = [cage.spawn(["sh", "-c", "for i in 1 2 3 4; do /bin/true; done"]) for _ in range(12)]
            left = {command.wait(timeout=30) for command in commands}
            assert left == {0}, [command.result() for command in commands]


def ends(closed: int) -> float | None:
    """Seconds until the cage was ended; None when it was not."""
    with Cage(WATCHED) as cage:
        command, began = cage.spawn(["python3", "-c", CLOSED, str(closed)]), time.monotonic()
        while time.monotonic() - began < 3:
            if command.poll() is not None:
                return time.monotonic() - began
            time.sleep(0.02)
        return None


def test_one_that_stays_readable_goes_on() -> None:
    assert ends(0) is None


def test_one_that_closes_itself_ends_its_cage() -> None:
    took = ends(1)

    assert took is not None and took < 2.5
