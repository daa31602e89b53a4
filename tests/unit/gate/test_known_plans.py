"""How long a plan stays known: for as long as somebody may need it, and the last few beyond that."""

from __future__ import annotations

import gc
import itertools
import json
import os
import socket
import ssl
import threading
import weakref
from collections.abc import Iterator
from functools import cache

import pytest

from _support.gate import net_plan
from pysandbox.compile.plan import Contract, HostGrant, InspectionPlan, NetPlan
from pysandbox.descriptors.sockets import socket_pair
from pysandbox.errors import StartError
from pysandbox.gate.inspection import channel
from pysandbox.gate.inspection.ca import SigningAuthority
from pysandbox.gate.inspection.channel import ChannelRecord, Kind
from pysandbox.gate.inspection.serving import Inspector
from pysandbox.gate.known_plans import KEPT, KnownPlans, PlanHold
from pysandbox.gate.trusted import KnownPlan, plan_of
from pysandbox.shapes import replace

TAUGHT = 1


def plan(number: int) -> NetPlan:
    hosts = (HostGrant(f"api{number}.example", (), False, Contract(methods=("GET",))),)
    return replace(net_plan(), hosts=hosts, inspection=InspectionPlan(5000, 1 << 26))


@cache
def certificate() -> bytes:
    return SigningAuthority(["api.example"]).pem


class Known:
    """As the inspector has them."""

    def __init__(self) -> None:
        self.plans, self._numbers = KnownPlans(), itertools.count(1)

    def use(self, number: int, *, answered: bool = True) -> KnownPlan:
        known = self.plans.use(plan(number), lambda: next(self._numbers))
        if known.taught != TAUGHT:
            known.taught = TAUGHT
            if answered:
                self.plans.files.learn(known.number, certificate(), self.plans, TAUGHT)
        return known

    def use_others(self, count: int) -> list[KnownPlan]:
        return [self.use(1000 + number) for number in range(count)]

    def knows(self, number: int) -> bool:
        return self.plans.find(plan(number)) is not None


@pytest.fixture
def known() -> Iterator[Known]:
    made = Known()
    yield made
    made.plans.forget_all()


def test_what_nobody_needs_is_forgotten_but_for_the_last_few(known: Known) -> None:
    used = [known.use(number) for number in range(KEPT + 3)]
    known.use(1)  # again
    forgotten = known.plans.forget_unneeded(TAUGHT)
    assert [each.number for each in forgotten] == [used[0].number, used[2].number, used[3].number]
    assert len(known.plans) == KEPT and known.knows(1)
    assert [os.path.exists(each.file) for each in used[:5]] == [False, True, False, False, True]


def test_one_that_a_cage_was_given_stays_until_the_last_of_them_is_gone(known: Known) -> None:
    path = known.use(1).path
    for count in (1, 2):
        assert known.plans.hold(path) is known.plans.find(plan(1)), count
    held = known.plans.find(plan(1))
    assert held is not None
    for _ in range(2):
        known.use_others(3 * KEPT)
        assert held not in known.plans.forget_unneeded(TAUGHT) and os.path.exists(path)
        known.plans.let_go(held)
    assert held not in known.plans.forget_unneeded(TAUGHT) and known.knows(1), "it is the one used last"
    for number in range(KEPT):
        known.use(2000 + number)
    assert held in known.plans.forget_unneeded(TAUGHT) and not os.path.exists(path)
    assert known.plans.hold(path) is None


def test_one_whose_cage_is_on_its_way_stays(known: Known) -> None:
    known.plans.expect(plan(1), 1)
    known.use(1)
    known.use_others(3 * KEPT)
    known.plans.forget_unneeded(TAUGHT)
    assert known.knows(1) and known.plans.is_expecting
    known.plans.expect(plan(1), -1)
    known.plans.forget_unneeded(TAUGHT)
    assert not known.knows(1) and not known.plans.is_expecting


def test_one_whose_authority_is_still_to_be_told_stays_until_it_is(known: Known) -> None:
    """Else what the inspector says of it would be what nobody has asked for."""
    waiting = known.use(1, answered=False)
    known.use_others(3 * KEPT)
    assert waiting not in known.plans.forget_unneeded(TAUGHT)
    known.plans.files.learn(waiting.number, certificate(), known.plans, TAUGHT)
    assert known.plans.forget_unneeded(TAUGHT) == [waiting]


def test_one_that_this_inspector_was_never_told_of_is_not_told_as_forgotten(known: Known) -> None:
    known.use(1)
    known.use_others(KEPT)
    assert known.plans.forget_unneeded(TAUGHT + 1) == [] and not known.knows(1)


def test_no_number_is_used_twice(known: Known) -> None:
    first = known.use(1)
    known.use_others(KEPT)
    known.plans.forget_unneeded(TAUGHT)
    again = known.use(1)
    assert again.number > first.number and again.file != first.file


def test_a_cage_lets_go_once_and_holds_nothing_that_is_gone(known: Known) -> None:
    of, ended = known.use(1), list[int]()
    holds = [PlanHold(known.plans, of.path, threading.RLock(), lambda: ended.append(of.cages)) for _ in range(2)]
    holds[0].end()
    holds[0].end()
    assert ended == [1]
    holds[1].end()
    assert ended == [1, 0]
    with pytest.raises(StartError, match="forgotten"):
        PlanHold(known.plans, f"{of.path}x", threading.RLock(), ended.clear)


# ---- in the inspector ---------------------------------------------------------------------------------------------


class Told:
    """An inspector in this process, which takes a record at a time."""

    def __init__(self, here: socket.socket, there: socket.socket) -> None:
        self._here, self.inspector = here, Inspector(there, "")

    def tell(self, record: ChannelRecord, fds: tuple[int, ...] = ()) -> None:
        channel.send(self._here, record, fds)
        self.inspector._take_record(0)

    def learn(self, number: int, upstream_ca: str = "") -> None:
        known = plan_of(plan(number), number)
        said = json.dumps(json.loads(known.said) | {"upstream_ca": upstream_ca}).encode()
        with replace(known, said=said).described() as file:
            self.tell(ChannelRecord(Kind.PLAN, number), (file.fileno(),))
        assert self.heard().kind is Kind.AUTHORITY

    def open(self, number: int, of_plan: int) -> Kind | None:
        """What it says of it at once."""
        fields = (str(of_plan), "2", "api.example", "443", "1", "0", "0", "")
        near, far = socket.socketpair()
        with near, far:
            said = tuple(each.encode() for each in fields)
            self.tell(ChannelRecord(Kind.OPEN, number, said), (near.fileno(), far.fileno()))
        try:
            return Kind(self.heard().kind)
        except BlockingIOError:
            return None

    def heard(self) -> ChannelRecord:
        received = channel.receive(self._here)
        assert received is not None
        return received[0]


@pytest.fixture
def told() -> Iterator[Told]:
    here, there = socket_pair()
    with here, there:
        made = Told(here, there)
        yield made
        made.inspector._loop._epoll.close()


def test_the_inspector_keeps_nothing_of_a_plan_that_is_dropped(told: Told) -> None:
    told.learn(1)
    plan_there = weakref.ref(told.inspector._plans[1].authority)
    assert told.open(7, 1) is None, "the control"
    told.tell(ChannelRecord(Kind.DROP, 1))
    assert told.open(8, 1) is Kind.OVER
    assert plan_there() is not None and 7 in told.inspector._pairs, "what is served goes on"
    told.tell(ChannelRecord(Kind.CUT, 7))
    assert told.heard().kind is Kind.OVER
    told.tell(ChannelRecord(Kind.DROP, 1))  # nothing to it
    told.inspector._loop.once(0)  # what was to be done soon
    gc.collect()
    assert plan_there() is None and not told.inspector._plans and not told.inspector._in_flight


def test_plans_with_the_same_authorities_of_servers_share_a_context(told: Told) -> None:
    own = certificate().decode()
    for number, more in enumerate(("", "", own, own)):
        told.learn(number, more)
    contexts: list[ssl.SSLContext] = [told.inspector._plans[number].upstream for number in range(4)]
    assert contexts[0] is contexts[1] and contexts[2] is contexts[3]
    counts = [len(each.get_ca_certs()) for each in contexts]
    assert counts == [0, 0, 1, 1], "and no others do"
    del contexts
    for number in range(4):
        told.tell(ChannelRecord(Kind.DROP, number))
    assert not told.inspector._upstreams
