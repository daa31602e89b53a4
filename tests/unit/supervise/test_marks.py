"""By lowering its limits a process comes from its mark to the narrower ones inside it, and to no other."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pysandbox.supervise.marks import LAST, Mark, Marks

STARTS = [Mark(-1, -1), Mark(-1, 1 << 40), Mark(1 << 30, -1)]  # -1 is infinity


def finite(limit: int) -> float:
    return float("inf") if limit < 0 else limit


def may_become(one: Mark, other: Mark) -> bool:
    return finite(other.locks) <= finite(one.locks) and finite(other.rss) <= finite(one.rss)


@given(st.lists(st.integers(0, 30), max_size=40), st.sampled_from(STARTS))
def test_only_what_is_inside_a_mark_lies_below_it(parents: list[int], unmarked: Mark) -> None:
    marks = Marks(unmarked)
    made: list[tuple[Mark, frozenset[int]]] = [(unmarked, frozenset({0}))]
    for chosen in parents:
        mark, above = made[chosen % len(made)]
        new = marks.inside(mark)[1]
        if new != LAST:
            made.append((new, above | {len(made)}))
    for place, (mark, _) in enumerate(made):
        for other, above in made:
            assert may_become(mark, other) == (place in above)


def test_where_there_is_no_room_a_mark_counts_as_every_mark() -> None:
    marks = Marks(Mark(-1, 4))
    assert marks.inside(marks.unmarked) == (1, LAST)
    assert marks.number_of(LAST) == 0
