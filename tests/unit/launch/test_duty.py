"""The bucket of CPU time: whatever the load and the tick, what is used comes to the share."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from pysandbox.live.cpu_budget import BURST, DEFIANCE, IDLE_TICK, SLACK, TICK, CpuBudget


def simulate(duty: CpuBudget, load: float, seconds: float, lateness: float = 0.0) -> float:
    """CPU seconds that `load` busy processors' worth of threads get; every measurement comes `lateness` late."""
    clock = used = 0.0
    while clock < seconds:
        step = duty.pause + lateness
        spent = 0.0 if duty.stopped else load * step
        clock, used = clock + step, used + spent
        duty.stopped = duty.account(spent, step)
    return used / clock


@settings(deadline=None, max_examples=40)
@given(
    rate=some.floats(0.05, 4), load=some.floats(0.1, 16), lateness=some.floats(0, 0.05)
)  # fmt: skip
def test_the_share_is_what_was_asked_or_what_the_load_needs(rate: float, load: float, lateness: float) -> None:
    got = simulate(CpuBudget(rate), load, 10, lateness)
    assert got == pytest.approx(min(rate, load), rel=0.05, abs=load * (TICK + lateness) / 10 + 0.02)


def test_a_cage_within_its_share_is_never_stopped() -> None:
    duty = CpuBudget(0.5)
    assert not any(duty.account(0.49 * TICK, TICK) for _ in range(1000))


def test_idleness_is_saved_for_a_moment_only() -> None:
    duty = CpuBudget(0.5)
    duty.account(0.0, 3600)
    assert not duty.account(0.5 * (BURST + SLACK) - 0.001, 0.0)
    assert duty.account(0.002, 0.0)


def test_a_stopped_cage_waits_until_it_is_even_and_no_longer() -> None:
    duty = CpuBudget(0.5)
    duty.stopped = duty.account(0.5, 0.0)
    assert duty.stopped and duty.pause == IDLE_TICK, "looked at meanwhile: it may be going on all the same"
    assert duty.account(0.0, 0.9)
    assert not duty.account(0.0, 0.11)


def test_what_was_stopped_is_measured_soon_after_it_goes_on() -> None:
    duty = CpuBudget(0.5)
    duty.stopped = duty.account(0.5, 0.0)
    duty.stopped = duty.account(0.0, 1.0)
    assert (duty.stopped, duty.pause) == (False, TICK)


def test_an_idle_cage_is_looked_at_less_often() -> None:
    duty = CpuBudget(0.5)
    duty.account(0.0, 1)
    idle = duty.pause
    duty.account(0.001, 1)
    assert idle > duty.pause == TICK


def test_a_cage_that_goes_on_although_it_is_stopped_fights() -> None:
    duty = CpuBudget(0.1)
    duty.stopped = duty.account(0.5, 0.0)
    looks = 0
    while not duty.fights:
        duty.account(IDLE_TICK, IDLE_TICK)
        looks += 1
    assert looks * IDLE_TICK == pytest.approx(DEFIANCE / 0.9, rel=0.1)


def test_what_begins_after_the_stop_at_the_host_s_word_is_no_fight() -> None:
    duty = CpuBudget(0.1)
    duty.stopped = duty.account(0.5, 0.0)
    for _ in range(1000):
        duty.account(IDLE_TICK, IDLE_TICK, excused=IDLE_TICK)
    assert not duty.fights


@given(late=some.floats(0, 0.2), rate=some.floats(0.01, 2))
def test_being_stopped_late_is_no_fight(late: float, rate: float) -> None:
    """All processors of the machine run on for a moment; the cage then waits until that is even."""
    duty, cores = CpuBudget(rate), DEFIANCE * 4
    for _ in range(20):
        duty.stopped = duty.account(SLACK, 0.0)
        duty.account(min(late * cores, DEFIANCE), 0.0)
        while duty.stopped:
            duty.stopped = duty.account(0.0, 1.0)
        assert not duty.fights
