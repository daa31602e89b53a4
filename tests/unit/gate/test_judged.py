"""What is told to the relay's thread, and what is never: whatever has to be decided, recorded or counted each time."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from _support.gate import net_plan, upstream
from pysandbox.compile.plan import Contract, HostGrant, InspectionPlan
from pysandbox.events import Event, ignore, said_elsewhere
from pysandbox.gate import judged
from pysandbox.gate import judging as deciding
from pysandbox.gate.cage_session import CageSession
from pysandbox.gate.judging import judge
from pysandbox.gate.ledger import Ledger
from pysandbox.gate.tcp.relay import SocketRelay
from pysandbox.gate.tcp.target import DialTarget
from pysandbox.shapes import replace

NAME = "name.example"


class Judging:
    """A session whose name is in a hosts file, and a connection to where that leads."""

    def __init__(self, hosts: Path) -> None:
        hosts.write_text(f"127.0.0.1 {NAME}\n")
        self.loop = asyncio.new_event_loop()
        self.relay = SocketRelay(self.loop)
        self.server = socket.create_server(("127.0.0.1", 0))
        self.connected = socket.create_connection(self.server.getsockname())
        self.target = DialTarget(NAME, self.server.getsockname()[1])
        plan = net_plan(NAME, ips=("127.0.0.1",))
        self.session = CageSession(
            "cage", plan, Ledger("cage", ignore), self.loop, upstream(hosts=hosts), self.relay
        )  # fmt: skip

    def is_told(self, said: str = NAME) -> bool:
        return judge(
            self.session, DialTarget(said, self.target.port), self.target, self.connected, self.session.rules
        )  # fmt: skip

    def close(self) -> None:
        self.session.judged.leave()
        self.relay.stop()
        self.connected.close()
        self.server.close()
        self.loop.close()


@pytest.fixture
def judging(tmp_path: Path) -> Iterator[Judging]:
    made = Judging(tmp_path / "hosts")
    yield made
    made.close()


def test_what_was_reached_by_rules_that_hold_is_told(judging: Judging) -> None:
    assert judging.is_told() and judging.is_told("198.18.1.0")
    judging.session.ledger = Ledger("cage", said_elsewhere)
    assert judging.is_told()


def test_its_room_is_of_the_cage_s_share(judging: Judging) -> None:
    assert judging.is_told()
    assert judging.session.descriptors.taken == judging.session.judged.most * judged.EACH > 0
    judging.session.judged.leave()
    judging.session.judged.leave()
    assert judging.session.descriptors.taken == 0


def test_nothing_is_told_where_somebody_takes_note(judging: Judging) -> None:
    heard: list[Event] = []
    judging.session.ledger = Ledger("cage", heard.append)
    assert not judging.is_told()


def test_nothing_is_told_of_a_host_with_a_contract(judging: Judging) -> None:
    held = HostGrant(NAME, (), False, Contract(methods=("GET",)))
    judging.session.net = replace(judging.session.net, inspection=InspectionPlan(1000, 1))
    assert judging.is_told()  # one without, in the same cage
    judging.session.rules = replace(judging.session.rules, hosts=(held,))
    assert not judging.is_told()


def test_nothing_is_told_of_an_answer_that_holds_no_longer(judging: Judging, tmp_path: Path) -> None:
    (tmp_path / "hosts").write_text("")
    assert not judging.is_told()


def test_nothing_is_told_of_rules_that_were_tightened(judging: Judging) -> None:
    rules = judging.session.rules
    with judging.session.lock:
        judging.session._tighten(())
    assert not judge(judging.session, judging.target, judging.target, judging.connected, rules)
    assert not judging.is_told()


def test_whose_an_address_is_is_decided_once_more(judging: Judging, monkeypatch: pytest.MonkeyPatch) -> None:
    """It was not listed, and nobody's when it was dialled."""
    judging.session.rules = replace(judging.session.rules, listed=judging.session.rules.listed.narrowed(()))
    monkeypatch.setattr(deciding, "is_own", lambda _: True)
    assert not judging.is_told()


def test_nothing_is_told_of_a_cage_that_has_ended(judging: Judging) -> None:
    judging.session.ended = True
    assert not judging.is_told()
    assert judging.session.judged.most == 0


@pytest.mark.parametrize("said", ["", "x" * 256, "a\0b", "n\N{LATIN SMALL LETTER A WITH DIAERESIS}me.example"])
def test_nothing_is_told_of_what_fits_no_place(judging: Judging, said: str) -> None:
    assert not judging.is_told(said)
