"""Claim: a cage with write_mb is ended when it has written more than that to files of the host, however it writes; and
who makes itself uncountable is ended for that.

The watchdog looks; what is written beyond the limit until it acts is bounded here by a machine's speed, not by the
attack: each is asked for many times the limit, and would have all of it on disk without one.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from pysandbox import Cage, Event, Policy, Result, Runtime
from pysandbox.errors import UnsupportedError
from pysandbox.live.written import MIB, Written, Wrote, most_lost

from .harness import PYTHON

ATTACK = Path(__file__).parent / "attacks" / "fill.py"
LIMIT, AMOUNT = 16, 400  # MiB
COUNTED = ["write", "slowly", "children", "orphans", "mapped", "allocated", "sent", "copied", "spliced", "directly"]
UNCOUNTABLE = {"unwaited": "write", "relay": "write", "hidden": "watchdog", "leaderless": "watchdog"}  # the limit told

Outcome = tuple[Result, int, list[object]]


@pytest.fixture(params=["full", "landlock"])
def isolation(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def filled(how: str, place: Path, isolation: str, amount: int = AMOUNT, **limits: int) -> Outcome:
    """The result, MiB on disk, and the limits that were told."""
    events: list[Event] = []
    policy = Policy(
        allow=[str(ATTACK)],
        allow_write=[str(place)],
        isolation=isolation,
        run_as="self",
        **limits,  # type: ignore[arg-type]
    )
    with Cage(policy, runtime=Runtime(sink=events.append, warm=0)) as cage:
        result = cage.run([PYTHON, str(ATTACK), how, str(place), str(amount)], timeout=120)
    size = sum(entry.stat().st_blocks * 512 for entry in os.scandir(place)) // MIB
    return result, size, [each.data["limit"] for each in events if each.type == "policy.violation"]


@pytest.mark.parametrize("how", [*COUNTED, *UNCOUNTABLE])
def test_the_control_writes_all_of_it(how: str, tmp_path: Path) -> None:
    result, size, _ = filled(how, tmp_path, "full", amount=64)

    assert result.exit_code == 0 and size >= 64, result.stderr


@pytest.mark.parametrize("how", COUNTED)
def test_who_writes_more_is_ended(how: str, isolation: str, tmp_path: Path) -> None:
    result, size, told = filled(how, tmp_path, isolation, write_mb=LIMIT)

    assert (result.reason, told) == ("cancelled", ["write"]), result.stderr
    assert size < AMOUNT * 3 / 4
    assert any("write_mb" in note.message for note in result.notes)


@pytest.mark.parametrize("how", UNCOUNTABLE)
def test_who_cannot_be_counted_is_ended(how: str, isolation: str, tmp_path: Path) -> None:
    """When, is for chance to say: whoever lives for a millisecond is seen at one look of many."""
    amount = 2 * AMOUNT
    result, size, told = filled(how, tmp_path, isolation, amount, write_mb=LIMIT)

    assert (result.reason, told) == ("cancelled", [UNCOUNTABLE[how]]), result.stderr
    assert size < amount


def test_space_is_not_taken_without_writing(isolation: str, tmp_path: Path) -> None:
    result, size, _ = filled("reserved", tmp_path, isolation, write_mb=LIMIT)

    assert result.exit_code == 1 and "Operation not supported" in result.stderr and size == 0


def test_who_keeps_to_it_is_left_alone(isolation: str, tmp_path: Path) -> None:
    for how in ("children", "orphans"):
        place = tmp_path / how
        place.mkdir()
        result, size, told = filled(how, place, isolation, amount=64, write_mb=128)
        assert (result.reason, told, size) == ("exited", [], 64)


def test_a_strict_policy_refuses_what_is_only_watched(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError, match="write_mb"):
        filled("write", tmp_path, "full", write_mb=LIMIT, strict=True)


def wrote(total: int | None, parent: str = "1", **threads: int) -> Wrote:
    return Wrote(total, parent, threads)


def test_what_is_told_to_a_parent_is_counted_once() -> None:
    account = Written()
    assert account.account({"2": wrote(0), "3": wrote(5 * MIB, "2")}, 0) == 5 * MIB
    assert account.account({"2": wrote(6 * MIB)}, None) == 6 * MIB  # 3 has written one more, and was waited for
    assert account.account({"2": wrote(6 * MIB), "4": wrote(2 * MIB, "9")}, None) == 8 * MIB
    assert account.account({"2": wrote(6 * MIB)}, None) == 8 * MIB  # 4 is an orphan, of whom cage-init has yet to tell
    for _ in range(20):
        assert account.account({"2": wrote(6 * MIB)}, 3 * MIB) == 9 * MIB
    assert account.lost == 0


def test_what_a_whole_line_has_told_at_once_is_counted_once() -> None:
    """All are first seen at one look, and all but the first have gone at the next."""
    account = Written()
    line = {str(each): wrote(MIB if each == 9 else 0, str(each - 1)) for each in range(9, 1, -1)}
    account.account(line, 0)
    for _ in range(10):
        assert account.account({"2": wrote(2 * MIB)}, 0) == 2 * MIB
    assert account.lost == 0


def test_a_sibling_that_writes_as_much_was_not_told_of_it() -> None:
    account, total = Written(), 0
    for number in range(3, 23):
        now, following = str(number), str(number + 1)
        account.account({"2": wrote(0), now: wrote(MIB, "2"), following: wrote(0, "2")}, 0)
        account.account({"2": wrote(0), following: wrote(MIB, "2")}, 0)
    total = account.account({"2": wrote(0), following: wrote(MIB, "2")}, 0)
    assert account.lost == 20 * MIB and total == 21 * MIB


def test_who_ended_after_its_parent_was_looked_at_is_told_of_at_the_next_look() -> None:
    account = Written()
    for number in range(3, 103):
        account.account({"2": wrote((number - 3) * MIB), str(number): wrote(MIB, "2")}, 0)
        account.account({"2": wrote((number - 3) * MIB)}, 0)
        total = account.account({"2": wrote((number - 2) * MIB)}, 0)
        assert total == (number - 2) * MIB
    assert account.lost == 0


def test_what_a_parent_s_own_threads_wrote_tells_of_nobody() -> None:
    account = Written()
    account.account({"2": wrote(0, a=0), "3": wrote(MIB, "2")}, 0)
    total = 0
    for _ in range(10):
        total = account.account({"2": wrote(MIB, a=MIB)}, 0)
    assert account.lost == MIB and total == 2 * MIB


def test_what_a_parent_wrote_itself_hides_nothing_that_it_was_told() -> None:
    account = Written()
    account.account({"2": wrote(0, a=0), "3": wrote(MIB, "2")}, 0)
    account.account({"2": wrote(2 * MIB, a=2 * MIB)}, 0)  # its threads were looked at last, and had gone on meanwhile
    for _ in range(10):
        assert account.account({"2": wrote(3 * MIB, a=2 * MIB)}, 0) == 3 * MIB
    assert account.lost == 0


def test_of_whom_nobody_tells_is_not_forgotten() -> None:
    account, total = Written(), 0
    for look in range(40):
        total = account.account({"2": wrote(0), str(look + 3): wrote(MIB, "2")}, 0)
    assert account.lost >= 38 * MIB and total == 39 * MIB
    assert most_lost(16 * MIB) == MIB and most_lost(1 << 40) == 1 << 34


def test_who_cannot_say_has_at_least_what_it_had() -> None:
    account = Written()
    account.account({"2": wrote(3 * MIB)}, 0)
    assert account.account({"2": wrote(None)}, 0) == 3 * MIB
