"""probe/opening.py: a clock is set back by somebody, not by a program that had to wait between two readings."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from pysandbox.probe import opening

AHEAD = 10**18


class Clocks:
    """Both go on by a microsecond with each reading; before each of the first `waits` pairs is done, others run."""

    def __init__(self, waits: int) -> None:
        self.now, self.readings, self.waits = 0, 0, waits

    def read(self, clock: int) -> int:
        self.readings += 1
        interrupted = self.readings % 3 == 2 and self.readings // 3 < self.waits
        self.now += 20_000_000 if interrupted else 1_000
        return self.now + (AHEAD if clock == time.CLOCK_REALTIME else 0)


@pytest.fixture
def readings(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Iterator[Clocks]:
    clocks = Clocks(request.param)
    monkeypatch.setattr(opening.time, "clock_gettime_ns", clocks.read)
    yield clocks


@pytest.mark.parametrize("readings", [0, 1, 7], indirect=True)
def test_a_program_that_had_to_wait_between_two_readings_reads_again(readings: Clocks) -> None:
    assert abs(opening.clock_ahead_ns() - AHEAD) < 10_000
    assert readings.readings == 3 * (readings.waits + 1)


@pytest.mark.parametrize("readings", [10_000], indirect=True)
def test_it_reads_so_many_times_and_no_more(readings: Clocks) -> None:
    assert abs(opening.clock_ahead_ns() - AHEAD) < 20_000_000
    assert readings.readings == 3 * (opening.MOST_READINGS + 1)
