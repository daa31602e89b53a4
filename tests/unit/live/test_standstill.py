"""live/standstill.py: who is stopped for a look, and that nothing stays stopped."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from pysandbox.live import standstill
from pysandbox.live.standstill import CROWD, GLANCE, PATIENCE, Standstill

STOP, GO = signal.SIGSTOP, signal.SIGCONT


class Machine:
    """A clock, how long the thread has waited for a processor, and a cage that notes what it was sent."""

    def __init__(self) -> None:
        self.now, self.waited, self.runnable = 1.0, 10.0, 1
        self.sent: list[int] = []
        self.reached = True  # by its /proc
        self.hears = True  # cage-init
        tree = SimpleNamespace(signal=self._through_proc)
        self.cage: Any = SimpleNamespace(tree=tree, signal_at_once=self._send, paused=False, kill_reason=None)

    def _through_proc(self, number: int) -> bool:
        return self.reached and self._send(number)

    def _send(self, number: int) -> bool:
        if self.hears:
            self.sent.append(number)
        return self.hears

    def passes(self, seconds: float, waiting: float = 0.0) -> None:
        self.now += seconds
        self.waited += waiting


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Iterator[Machine]:
    machine = Machine()
    clock = SimpleNamespace(monotonic=lambda: machine.now)
    monkeypatch.setattr(standstill, "time", clock)
    monkeypatch.setattr(standstill, "waited_for_processor", lambda: machine.waited)
    monkeypatch.setattr(standstill, "runnable", lambda: machine.runnable)
    yield machine


def look(
    machine: Machine, still: Standstill, *, may_stop: bool = True, urgent: bool = True, processes: int = 1
) -> None:
    """One that waits for twice its patience, at twenty files."""
    with still.during_look(machine.cage, may_stop=may_stop, urgent=urgent) as glance:
        glance(processes)
        for _ in range(20):
            machine.passes(GLANCE, PATIENCE / 10)
            glance(0)


def test_a_look_that_waits_for_a_processor_ends_while_the_cage_stands_still(machine: Machine) -> None:
    still = Standstill()
    look(machine, still)
    assert machine.sent == [STOP, GO]
    assert 0 < still.lasted < 20 * GLANCE


def test_who_waits_for_something_else_stops_nobody(machine: Machine) -> None:
    with Standstill().during_look(machine.cage, may_stop=True, urgent=True) as glance:
        machine.passes(10.0)  # of another thread of the host's, which holds what ours needs
        glance(0)
    assert machine.sent == []


def test_a_crowd_that_wants_processors_is_stopped_at_once(machine: Machine) -> None:
    machine.runnable = CROWD + 1
    with Standstill().during_look(machine.cage, may_stop=True, urgent=True) as glance:
        glance(CROWD + 1)
        assert machine.sent == [STOP]
    assert machine.sent == [STOP, GO]


@pytest.mark.parametrize(
    ("processes", "runnable", "urgent"), [(CROWD, CROWD + 1, True), (CROWD + 1, 1, True), (CROWD + 1, CROWD + 1, False)]
)
def test_few_or_idle_or_far_from_the_limit_go_on(machine: Machine, processes: int, runnable: int, urgent: bool) -> None:
    machine.runnable = runnable
    with Standstill().during_look(machine.cage, may_stop=True, urgent=urgent) as glance:
        glance(processes)
    assert machine.sent == []


def test_whoever_else_has_stopped_it_decides_when_it_goes_on(machine: Machine) -> None:
    look(machine, Standstill(), may_stop=False)
    assert machine.sent == []


def test_a_pause_during_the_look_stays(machine: Machine) -> None:
    with Standstill().during_look(machine.cage, may_stop=True, urgent=True) as glance:
        machine.passes(1.0, 1.0)
        glance(0)
        machine.cage.paused = True
    assert machine.sent == [STOP]


def test_what_was_condemned_does_not_go_on(machine: Machine) -> None:
    with Standstill().during_look(machine.cage, may_stop=True, urgent=True) as glance:
        machine.passes(1.0, 1.0)
        glance(0)
        machine.cage.kill_reason = "out of memory"
    assert machine.sent == [STOP]


def test_a_look_that_fails_leaves_nobody_stopped(machine: Machine) -> None:
    still = Standstill()
    with (
        pytest.raises(OSError, match="shortage"),
        still.during_look(machine.cage, may_stop=True, urgent=True) as glance,
    ):
        machine.passes(1.0, 1.0)
        glance(0)
        raise OSError("shortage")
    assert machine.sent == [STOP, GO]
    assert not still.held


def test_who_cannot_be_told_to_go_on_is_told_after_the_next_look(machine: Machine) -> None:
    still = Standstill()
    machine.reached = False
    with still.during_look(machine.cage, may_stop=True, urgent=True) as glance:
        machine.passes(1.0, 1.0)
        glance(0)
        machine.hears = False
    assert still.held
    machine.hears = True
    with still.during_look(machine.cage, may_stop=True, urgent=True):
        pass
    assert machine.sent == [STOP, GO]
    assert not still.held


def test_the_real_clock_of_waiting_never_goes_back() -> None:
    before = standstill.waited_for_processor()
    assert before >= 0
    assert standstill.waited_for_processor() >= before
