"""What is new at a destination is taken from its budget, once; what is over it takes nothing."""

from __future__ import annotations

import random

from pysandbox.dlp.opaque import Stretch
from pysandbox.dlp.spending import EIGHT, MOST_SEEN, PIECE, Spending

CHANCE = random.Random(8)


def data(size: int, *, named: bool = False) -> Stretch:
    return Stretch(CHANCE.randbytes(size), named)


def taken(spending: Spending, *said: Stretch) -> int | None:
    """How many bytes were; None where it is refused."""
    before = spending.taken
    return spending.taken - before if spending.take(said) else None


def test_to_the_last_byte_and_no_further() -> None:
    spending = Spending(1000)
    assert taken(spending, data(999)) == 999
    assert taken(spending, data(2)) is None
    assert taken(spending, data(1)) == 1 and spending.spent == 1000
    assert taken(Spending(0)) == 0 and taken(Spending(0), data(1)) is None


def test_what_was_sent_before_costs_nothing_also_where_it_has_grown() -> None:
    spending, picture = Spending(10_000), data(6000).said
    assert taken(spending, Stretch(picture, False)) == 6000
    assert taken(spending, *[Stretch(picture, False)] * 3) == 0
    assert taken(spending, Stretch(picture[: 90 * PIECE] + b"x" * 10, False)) == 10


def test_what_was_refused_was_not_sent() -> None:
    spending, much = Spending(100), data(150)
    assert [taken(spending, much) for _ in range(3)] == [None] * 3
    assert spending.spent == 0 and taken(spending, Stretch(much.said[:64], False)) == 64


def test_names_have_a_budget_of_their_own_which_ends_too() -> None:
    spending = Spending(400)
    assert [taken(spending, data(40, named=True)) for _ in range(EIGHT * 10)] == [40] * EIGHT * 10
    assert spending.spent == 0 and taken(spending, data(40, named=True)) is None
    assert taken(spending, data(400)) == 400


def test_what_is_remembered_is_bounded_and_what_is_forgotten_is_taken_again() -> None:
    spending = Spending(1 << 40)
    much = [data(PIECE * 1000) for _ in range(MOST_SEEN // 1000 + 1)]
    for each in much:
        assert taken(spending, each) == PIECE * 1000
    assert taken(spending, much[0]) == 0 and taken(spending, much[-1]) == PIECE * 1000


def test_two_that_are_looked_at_together_never_take_more_than_there_is() -> None:
    spending = Spending(1000)
    one, two = (spending.steps([data(400), data(300)]) for _ in range(2))
    ended = []
    for steps in (one, two, one, two, one, two):
        try:
            next(steps)
        except StopIteration as said:
            ended.append(said.value)
    assert ended == [True, False] and spending.taken == 700
