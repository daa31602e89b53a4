"""Patience with a process: counted in rounds in which it owed an answer, not in time."""

from __future__ import annotations

import select
from collections.abc import Iterator

import pytest

from pysandbox.gate.pulse import Pulse


@pytest.fixture
def pulse() -> Iterator[Pulse]:
    made = Pulse(every=2, rounds=3)
    yield made
    made.close()


def rounds(pulse: Pulse, *moments: float) -> list[bool | None]:
    return [pulse.asks_again(each) for each in moments]


def test_one_that_answers_is_never_late(pulse: Pulse) -> None:
    for now in range(10, 1000, 5):
        number = pulse.ask()
        assert pulse.asks_again(now) is True
        pulse.answered(number)
    assert not pulse.is_late and not pulse.is_owed


def test_one_that_owes_an_answer_for_too_many_rounds_is_silent(pulse: Pulse) -> None:
    pulse.ask()
    assert rounds(pulse, 10, 11, 12) == [True, False, True] and pulse.is_late
    assert rounds(pulse, 14, 16) == [True, None]


def test_a_host_that_was_away_itself_counts_one_round(pulse: Pulse) -> None:
    pulse.ask()
    assert rounds(pulse, 10, 1_000_000) == [True, True]
    pulse.answered(1)
    assert not pulse.is_late


def test_an_answer_in_advance_is_none(pulse: Pulse) -> None:
    pulse.answered(1 << 63)
    assert pulse.ask() == 1 and pulse.is_owed


def test_who_listens_is_woken_by_the_first_question_alone(pulse: Pulse) -> None:
    def is_woken() -> bool:
        return bool(select.select([pulse], [], [], 0)[0])

    assert not is_woken()
    pulse.ask()
    assert is_woken()
    pulse.rest()
    pulse.ask()
    assert not is_woken()
