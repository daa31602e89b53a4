"""The part of the relay that may dial: what it is asked for one cage, and what of that is given back."""

from __future__ import annotations

from collections.abc import Callable
from ipaddress import ip_address
from types import SimpleNamespace
from typing import Any

import pytest
from pysandbox._native import ffi, lib

from pysandbox.gate.judged import EACH, MOST_DIALLED, OWN_MS, PART, DialledTarget, JudgedTargets
from pysandbox.gate.rules import sixteen
from pysandbox.gate.tcp.target import DialTarget

CAGE, ROOMY = 7, MOST_DIALLED * PART * EACH
ADDRESS = ip_address("203.0.113.7")
FUNCTIONS = {
    lib.psb_dial_admit: "admit", lib.psb_dial_learn: "learn", lib.psb_dial_forget: "forget",
    lib.psb_dial_list: "list", lib.psb_dial_cut: "cut", lib.psb_dial_allowed: "allowed", lib.psb_dial_leave: "leave",
}  # fmt: skip


class ToldRelay:
    """`answers` by the name of what is asked, else 0."""

    def __init__(self) -> None:
        self.asked: list[tuple[Any, ...]] = []
        self.answers: dict[str, int] = {}

    def ask(self, function: Callable[..., Any], *given: Any) -> int:
        name = FUNCTIONS[function]
        if name == "learn":
            judged = given[1]
            said, meant = (
                ffi.unpack(text, size).decode()
                for text, size in ((judged.said, judged.said_size), (judged.name, judged.name_size))
            )
            given = (given[0], said, meant, bytes(judged.address), judged.port, judged.own, judged.own_ms,
                     judged.life_ms)  # fmt: skip
        elif name == "forget":
            given = (given[0], b"" if given[1] == ffi.NULL else bytes(given[1]), given[2])
        elif name == "list":
            given[1][0].number, given[1][0].name, given[1][0].port = 5, b"name.example", 443
            given[1][0].address = list(sixteen(ADDRESS))
            given = (given[0], given[2])
        self.asked.append((name, *given))
        return self.answers.get(name, 0)


class RelayedCage:
    """Its targets at such a relay. `room`: descriptors of all cages."""

    def __init__(self, *, room: int = ROOMY) -> None:
        self.relay, self.free, self.counted = ToldRelay(), ROOMY, list[int]()
        share: Any = SimpleNamespace(all=room, take=self.take, give=self.give)
        ledger: Any = SimpleNamespace(count_allowed_tcp=self.counted.append)
        anything: Any = self.relay
        self.targets = JudgedTargets(anything, CAGE, share, ledger)

    def take(self, count: int) -> bool:
        self.free -= count
        return True

    def give(self, count: int) -> None:
        self.free += count


@pytest.mark.parametrize(
    ("room", "most"),
    [(ROOMY, MOST_DIALLED), (ROOMY * 9, MOST_DIALLED), (ROOMY // 2, MOST_DIALLED // 2), (PART * EACH, 1),
     (PART * EACH - 1, 0), (0, 0)],
)  # fmt: skip
def test_a_cage_has_room_for_a_part_of_what_all_have(room: int, most: int) -> None:
    cage = RelayedCage(room=room)
    assert cage.targets.admit() is (most > 0) and cage.targets.most == most
    assert cage.relay.asked == ([("admit", CAGE, most)] if most else [])
    assert cage.targets.admit() is (most > 0)  # once is enough
    assert len(cage.relay.asked) == (1 if most else 0) and cage.free == ROOMY - most * EACH


def test_what_was_not_admitted_has_taken_nothing() -> None:
    full = RelayedCage()
    full.relay.answers["admit"] = -12
    assert not full.targets.admit() and full.targets.most == 0 and full.free == ROOMY
    none: Any = SimpleNamespace(all=ROOMY, take=lambda _: False)
    anything: Any = ToldRelay()
    assert not JudgedTargets(anything, CAGE, none, anything).admit() and anything.asked == []
    roomy: Any = SimpleNamespace(all=ROOMY, take=lambda _: True)
    assert not JudgedTargets(None, CAGE, roomy, anything).admit()


def test_what_is_told_is_what_was_judged() -> None:
    cage = RelayedCage()
    cage.targets.admit()
    said, meant = DialTarget("198.18.1.0", 443), DialTarget("name.example", 443)
    assert cage.targets.tell(said, meant, ADDRESS, -1, 1.5)
    assert cage.relay.asked[1:] == [
        ("learn", CAGE, "198.18.1.0", "name.example", sixteen(ADDRESS), 443, -1, OWN_MS, 1500)
    ]
    cage.relay.answers["learn"] = -2
    assert not cage.targets.tell(said, meant, ADDRESS, 0, 1.5)


def test_one_address_is_forgotten_or_all_of_them() -> None:
    cage = RelayedCage()
    cage.targets.forget()
    assert cage.relay.asked == []  # nothing was told
    cage.targets.admit()
    cage.targets.forget()
    cage.targets.forget(ADDRESS)
    assert cage.relay.asked[1:] == [("forget", CAGE, b"", 0), ("forget", CAGE, b"203.0.113.7", 11)]


def test_what_is_dialled_there_is_listed_counted_and_cut() -> None:
    cage = RelayedCage()
    cage.targets.count()
    assert cage.targets.connections() == [] and cage.relay.asked == [] and cage.counted == []
    cage.targets.admit()
    cage.relay.answers |= {"list": 1, "allowed": 3}
    assert cage.targets.connections() == [DialledTarget(5, DialTarget("name.example", 443), ADDRESS)]
    cage.targets.count()
    cage.targets.cut(5)
    assert cage.relay.asked[1:] == [("list", CAGE, MOST_DIALLED), ("allowed", CAGE), ("cut", 5)]
    assert cage.counted == [3]


def test_whoever_leaves_gives_all_of_it_back_once() -> None:
    cage = RelayedCage()
    cage.targets.leave()
    assert cage.relay.asked == []
    cage.targets.admit()
    cage.relay.answers["leave"] = 2
    cage.targets.leave()
    cage.targets.leave()
    assert cage.relay.asked[1:] == [("leave", CAGE)] and cage.counted == [2] and cage.free == ROOMY
    assert cage.targets.admit()
