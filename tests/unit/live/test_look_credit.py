"""A share of time for looks: some at once, then as much as comes back."""

from __future__ import annotations

from pysandbox.live.look_credit import CREDIT, SHARE, LookCredit


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


def look(credit: LookCredit, clock: Clock, seconds: float) -> None:
    with credit.spent():
        clock.now += seconds


def test_looks_end_when_the_credit_is_spent_and_begin_again_with_time() -> None:
    clock = Clock()
    credit = LookCredit(clock)
    looks = 0
    while credit.is_left:
        look(credit, clock, CREDIT / 10)
        looks += 1
    assert 10 <= looks <= 12
    clock.now += CREDIT / 10 / SHARE * 2
    assert credit.is_left


def test_whoever_asks_without_pause_has_a_share() -> None:
    clock = Clock()
    credit, spent, began = LookCredit(clock), 0.0, clock.now
    while clock.now < began + 1000:
        if credit.is_left:
            look(credit, clock, 0.02)
            spent += 0.02
        else:
            clock.now += 0.001
    assert spent <= CREDIT + 1000 * SHARE + 0.02


def test_no_more_is_saved_than_the_credit() -> None:
    clock = Clock()
    credit = LookCredit(clock)
    clock.now += 1e6
    assert credit.is_left
    look(credit, clock, 2 * CREDIT)
    assert not credit.is_left


def test_what_is_raised_in_a_look_was_a_look() -> None:
    clock = Clock()
    credit = LookCredit(clock)
    try:
        with credit.spent():
            clock.now += 2 * CREDIT
            raise OSError
    except OSError:
        pass
    assert not credit.is_left
