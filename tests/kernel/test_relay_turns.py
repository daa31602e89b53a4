"""csrc/host/relay/relay_turns.c: which events of a round are served, and in which order."""

from __future__ import annotations

import ctypes
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "csrc/host/relay/relay_turns.c"
TURNS, EVENTS = 8, 64


class Turns:
    def __init__(self, lib: ctypes.CDLL) -> None:
        self._lib = lib
        self._turns = ctypes.create_string_buffer(256)  # more than the struct takes, all zero
        lib.join_turns.restype = ctypes.c_void_p
        lib.take_turns.restype = ctypes.c_size_t

    def join(self, number: int) -> int:
        return int(self._lib.join_turns(self._turns, ctypes.c_uint32(number)))

    def leave(self, cage: int) -> None:
        self._lib.leave_turns(self._turns, ctypes.c_void_p(cage))

    def take(self, *of: int) -> list[int]:
        """The places of the events that are served."""
        order = (ctypes.c_uint8 * EVENTS)()
        whose = (ctypes.c_void_p * len(of))(*of)
        count = self._lib.take_turns(self._turns, whose, ctypes.c_size_t(len(of)), order)
        return list(order[:count])


@pytest.fixture(scope="module")
def lib(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    made = tmp_path_factory.mktemp("turns") / "turns.so"
    subprocess.run(["gcc", "-shared", "-fPIC", "-std=gnu11", "-o", str(made), str(SOURCE)], check=True)
    return ctypes.CDLL(str(made))


@pytest.fixture
def turns(lib: ctypes.CDLL) -> Iterator[Turns]:
    yield Turns(lib)


def test_a_cage_that_is_alone_is_served_whole_and_in_order(turns: Turns) -> None:
    mine = turns.join(1)
    assert turns.join(1) == mine
    assert turns.take(*[mine] * EVENTS) == list(range(EVENTS))


def test_a_crowd_of_one_cage_never_comes_before_the_second_event_of_another(turns: Turns) -> None:
    crowd, other = turns.join(1), turns.join(2)
    served = turns.take(*[crowd] * 62, other, other)
    assert served.index(62) == 1 and served.index(63) == 3
    assert len(served) == TURNS + 2


def test_every_event_of_a_crowd_has_its_turn_in_a_bounded_number_of_rounds(turns: Turns) -> None:
    """The kernel may report them in the same order each time."""
    crowd, _ = turns.join(1), turns.join(2)
    served: set[int] = set()
    for _ in range(EVENTS // TURNS):
        served.update(turns.take(*[crowd] * EVENTS))
    assert served == set(range(EVENTS))


def test_a_cage_that_has_left_counts_no_more(turns: Turns) -> None:
    mine, other = turns.join(1), turns.join(2)
    turns.join(2)
    turns.leave(other)
    assert len(turns.take(*[mine] * EVENTS)) == TURNS
    turns.leave(other)
    assert len(turns.take(*[mine] * EVENTS)) == EVENTS


def test_a_round_without_events_is_nothing(turns: Turns) -> None:
    turns.join(1)
    assert turns.take() == []
