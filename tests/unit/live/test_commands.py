"""A refusal is a command's where that is certain, and nobody's where it is not."""

from __future__ import annotations

from pysandbox.denial import Denial
from pysandbox.live.askers import attributed
from pysandbox.live.commands import KEPT, Asker, Commands

DENIAL = Denial("exec", "/bin/x", "process.allow_execve", "")


def commands(*pids: int) -> Commands:
    made = Commands()
    for pid in pids:
        made.leads(made.begin(), pid)
    return made


def test_of_one_command_everything_is_its_own() -> None:
    made = commands(2)
    assert (made.of(Asker()), made.sole(), made.only()) == (1, 1, 1)


def test_of_several_the_one_whose_session_or_ancestor_it_is() -> None:
    made = commands(2, 9)
    assert [made.of(Asker(leaders=each)) for each in ((2,), (9,), (50, 9), (50, 51), ())] == [1, 2, 2, None, None]
    assert (made.sole(), made.only()) == (None, None)


def test_a_command_whose_process_is_not_known_yet_is_found_later() -> None:
    made = commands(2)
    second, asker = made.begin(), Asker(leaders=(9,))
    assert made.of(asker) is None
    made.leads(second, 9)
    assert made.of(asker) == second


def test_a_number_that_was_used_again_is_the_later_command_s_from_then_on() -> None:
    made = commands(2)
    made.end(1)
    early = Asker(leaders=(2,))
    made.leads(made.begin(), 2)
    assert (made.of(early), made.of(Asker(leaders=(2,)))) == (1, 2)


def test_a_command_that_left_nothing_behind_is_not_suspected_any_more() -> None:
    made = commands(2)
    made.end(1)
    over = made.gone([])
    made.close(over)
    assert made.begin() == 2 and made.sole() == 2


def test_a_command_that_left_an_orphan_is_suspected_still() -> None:
    made = commands(2)
    made.end(1)
    assert made.gone([77]) == ()  # a child of cage-init that leads no command
    made.begin()
    assert made.sole() is None


def test_while_another_runs_its_first_process_is_no_orphan() -> None:
    made = commands(2, 9)
    made.end(1)
    assert (list(made.gone([9])), list(made.gone([9, 10]))) == ([1], [])


def test_one_whose_first_process_is_not_known_may_be_anybody_s() -> None:
    made = commands(2)
    made.begin()
    made.end(1)
    assert made.gone([9]) == ()


def test_what_is_kept_is_bounded() -> None:
    made = Commands()
    for _ in range(KEPT + 10):
        made.leads(number := made.begin(), number + 1)
        made.end(number)
        made.close(made.gone([]))
    assert made.of(Asker(leaders=(5,))) is None and made.of(Asker(leaders=(KEPT,))) == KEPT - 1


def test_the_same_of_one_command_is_one_with_its_count_and_of_two_it_is_two() -> None:
    made = commands(2, 9)
    rows = [(DENIAL, Asker(leaders=(2,))), (DENIAL, Asker(leaders=(30, 2))), (DENIAL, Asker(leaders=(9,))),
            (DENIAL, Asker(leaders=(40,)))]  # fmt: skip
    assert [(each.command, each.count) for each in attributed(rows, made)] == [(1, 2), (2, 1), (None, 1)]
