"""walltime_sec: SIGTERM at the limit, SIGKILL after the grace period, caged or not (WALL-01 to WALL-04)."""

from __future__ import annotations

import time

import pytest

import pysandbox
from pysandbox import PIPE, Cage, Policy

IGNORES_TERM = ["/bin/sh", "-c", "trap '' TERM; echo set; while :; do sleep 0.05; done"]


@pytest.mark.parametrize("isolation", ["full", "landlock"])
def test_at_the_limit_the_command_is_asked_to_end(isolation: str) -> None:
    polite = ["/bin/sh", "-c", "trap 'echo ending; exit 0' TERM; while :; do sleep 0.05; done"]

    result = pysandbox.run(polite, policy=Policy(walltime_sec=1, isolation=isolation, run_as="self"))

    assert (result.stdout, result.reason, result.exit_code) == ("ending\n", "timeout", 124)
    assert 1 <= result.duration < 4


def test_after_the_grace_period_it_is_killed() -> None:
    result = pysandbox.run(IGNORES_TERM, policy=Policy(walltime_sec=1, grace_sec=1))

    assert (result.reason, result.exit_code, result.signal) == ("timeout", 124, 9)
    assert 2 <= result.duration < 5


def test_a_command_that_ends_in_time_is_not_touched() -> None:
    result = pysandbox.run(["/bin/sh", "-c", "exit 3"], policy=Policy(walltime_sec=1))

    assert (result.reason, result.exit_code) == ("exited", 3)


def test_the_watchdog_of_an_ended_command_does_not_hit_the_next() -> None:
    with Cage(Policy(walltime_sec=1, grace_sec=0)) as cage:
        start = time.monotonic()
        while time.monotonic() - start < 1.5:
            assert cage.run(["/bin/sleep", "0.3"]).reason == "exited"


def test_it_holds_for_spawn_as_well() -> None:
    with Cage(Policy(walltime_sec=1, grace_sec=0)).spawn(IGNORES_TERM, stdout=PIPE) as process:
        process.wait(timeout=10)

        assert process.result().reason == "timeout"


def test_a_busy_host_thread_does_not_delay_it() -> None:
    import threading

    stop = threading.Event()
    busy = threading.Thread(target=lambda: [None for _ in iter(stop.is_set, True)])
    busy.start()
    try:
        result = pysandbox.run(["/bin/sleep", "600"], policy=Policy(walltime_sec=1, grace_sec=0))
    finally:
        stop.set()
        busy.join()

    assert result.reason == "timeout" and result.duration < 4


def test_it_holds_without_a_cage() -> None:
    result = pysandbox.run(IGNORES_TERM, policy=Policy(caged=False, walltime_sec=1, grace_sec=0))

    assert (result.reason, result.exit_code, result.caged) == ("timeout", 124, False)
    assert 1 <= result.duration < 4


@pytest.mark.slow
def test_sixty_seconds_of_sleep_end_within_five_to_ten() -> None:
    start = time.monotonic()

    result = pysandbox.run(["/bin/sleep", "60"], policy=Policy(walltime_sec=5))

    assert result.reason == "timeout"
    assert 5 <= time.monotonic() - start <= 10
