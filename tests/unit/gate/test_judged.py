"""What is told to the relay's thread, and what is never: whatever has to be decided, recorded or counted each time."""

from __future__ import annotations

import asyncio
import errno
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from _support.gate import net_plan, upstream
from pysandbox.compile.plan import Contract, HostGrant, InspectionPlan
from pysandbox.events import Event, ignore, said_elsewhere
from pysandbox.gate import judged
from pysandbox.gate import judging as deciding
from pysandbox.gate.cage_session import CageSession
from pysandbox.gate.judging import judge
from pysandbox.gate.ledger import Ledger
from pysandbox.gate.rules import GateRules
from pysandbox.gate.tcp.relay import SocketRelay
from pysandbox.gate.tcp.target import DialTarget
from pysandbox.policy.names import HOST_ALIAS, IPAddress
from pysandbox.policy.parent import ParentProxy
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


# ---- each of its conditions, at a session that holds nothing but them ----------------------------------------------

LISTED, OTHER, SIX, PORT = "203.0.113.7", "203.0.113.8", "2001:db8::7", 443
LIFE, LIFE_OF_SIX = 30.0, 20.0  # seconds for which the name server's answers hold


class Session:
    """What `judge` asks, and what it tells."""

    def __init__(self) -> None:
        self.rules = GateRules.of(net_plan(NAME, ips=(LISTED,), loopback=(PORT,)))
        self.net, self.lock, self.ended, self.asked_names = net_plan(), threading.Lock(), False, None
        self.ledger, self.upstream, self.judged = Ledger("cage", ignore), self, self
        self.peer: str | None = LISTED
        self.meanwhile: Callable[[Session], object] = lambda _: None
        self.lives = {False: LIFE, True: LIFE_OF_SIX}
        self.told: list[tuple[int, float]] = []

    def holds(self, name: str, *, six: bool) -> float:
        return self.lives[six]

    def admit(self) -> bool:
        self.meanwhile(self)
        return True

    def tell(self, said: DialTarget, target: DialTarget, address: IPAddress, own: int, life: float) -> bool:
        self.told.append((own, life))
        return True

    def getpeername(self) -> tuple[str, int]:
        if self.peer is None:
            raise OSError(errno.ENOTCONN, "gone")
        return self.peer, PORT

    def judge(self, host: str) -> bool:
        target: Any = DialTarget(host, PORT)
        this: Any = self
        return judge(this, target, target, this, self.rules)


@pytest.mark.parametrize(
    ("host", "peer", "is_own", "told"),
    [
        (NAME, OTHER, False, (0, LIFE)),
        (NAME, SIX, False, (0, LIFE_OF_SIX)),
        (NAME, LISTED, True, (1, LIFE)),
        (NAME, OTHER, True, None),  # an address of this host's that no list has
        (LISTED, LISTED, False, (0, deciding.LITERAL_LIFE)),
        (LISTED, LISTED, True, (1, deciding.LITERAL_LIFE)),
        (OTHER, OTHER, False, None),
        (HOST_ALIAS, "127.0.0.1", True, (-1, deciding.LITERAL_LIFE)),
    ],
)
def test_what_is_told_of_whose_and_how_long(
    host: str, peer: str, is_own: bool, told: tuple[int, float] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deciding, "is_own", lambda _: is_own)
    session = Session()
    session.peer = peer
    assert session.judge(host) is (told is not None)
    assert session.told == ([told] if told is not None else [])


PARENT = ParentProxy("proxy.example", 3128, "", ())
CONDITIONS: dict[str, Callable[[Session], object]] = {
    "names are charged for": lambda session: setattr(session, "asked_names", session),
    "the parent proxy is asked": lambda session: setattr(session, "rules", replace(session.rules, parent=PARENT)),
    "the connection has ended": lambda session: setattr(session, "peer", None),
    "the answer holds no longer": lambda session: setattr(session, "lives", dict.fromkeys((False, True), 0.0)),
    "the cage ends meanwhile": lambda session: setattr(
        session, "meanwhile", lambda late: setattr(late, "ended", True)
    ),
    "the rules change meanwhile": lambda session: setattr(
        session, "meanwhile", lambda late: setattr(late, "rules", replace(late.rules))
    ),
}  # fmt: skip


@pytest.mark.parametrize("why", CONDITIONS)
def test_each_condition_by_itself_leaves_it_to_the_loop(why: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deciding, "is_own", lambda _: False)
    session = Session()
    assert session.judge(NAME)
    CONDITIONS[why](session)
    assert not session.judge(NAME) and len(session.told) == 1
