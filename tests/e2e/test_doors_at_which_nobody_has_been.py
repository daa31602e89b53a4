"""Doors wait in the kernel until somebody is at one: the reader hears of no cage before, nobody waits for it on behalf
of one, and what arrives is judged, recorded and refused as if it had been there all the time."""

from __future__ import annotations

import errno
import os
import signal
import socket
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from _support.admitted import ASKED, Live, admitted, runtime_of_cages
from _support.gate import net_plan
from pysandbox import Cage, Event, Policy
from pysandbox.errors import StartError
from pysandbox.events import TCP_DENIED
from pysandbox.gate.gatekeeper import Gatekeeper, admit
from pysandbox.gate.threads import in_loop
from pysandbox.runtime.runtime import Runtime

NXDOMAIN = 3
A_COM = ASKED[:12] + b"\1a\3com\0" + ASKED[-4:]


@pytest.fixture
def runtime() -> Iterator[Any]:
    with runtime_of_cages() as runtime:
        yield runtime


class Lacking:
    """epoll(7), when the kernel has no memory for one more descriptor."""

    closed = False

    def register(self, fd: int, events: int) -> None:
        raise OSError(errno.ENOMEM, os.strerror(errno.ENOMEM))

    def unregister(self, fd: object) -> None:
        raise OSError(errno.ENOENT, os.strerror(errno.ENOENT))


def descriptors(live: Any) -> tuple[int, int]:
    """What cages may have of them, and what is taken of it."""
    return in_loop(live.keeper.loop, lambda: (live.keeper.account.limit, live.keeper.account.taken))


def test_control_the_reader_hears_of_a_cage_that_speaks(runtime: Any) -> None:
    live = admitted(runtime)
    assert live.asks()[3] & 0xF == NXDOMAIN
    assert live.session.reader is live.keeper.reader and live.keeper.quiet.descriptors == 0
    assert [each.target for each in live.session.denials()] == ["evil.com"]
    live.session.end()


def test_nobody_waits_for_the_reader_on_behalf_of_a_cage_that_is_silent(runtime: Any) -> None:
    """It is stopped, and the loop is busy: a question of either would take as long as that lasts."""
    other = admitted(runtime)
    assert other.asks()
    released, busy = threading.Event(), threading.Event()
    process = other.keeper.reader.process
    process.send_signal(signal.SIGSTOP)
    try:
        other.keeper.loop.call_soon_threadsafe(lambda: (busy.set(), released.wait()))
        assert busy.wait(20)
        live = admitted(runtime)
        assert live.session.denials() == () and live.session.reader is None
        live.session.end()
        assert live.session.ended and {door.fileno() for door in live.session.doors} == {-1}
        with pytest.raises(ConnectionRefusedError):
            live.asks()
        assert live.session not in live.keeper._sessions and not released.is_set()
    finally:
        released.set()
        process.send_signal(signal.SIGCONT)
        other.session.end()


@pytest.mark.parametrize("words", [1, 3])
def test_what_the_kernel_has_refused_a_moment_before_is_recorded(words: int) -> None:
    """The first that its cage has said, and the last: the command ends with it."""
    events: list[Event] = []
    runtime = Runtime(warm=0, sink=events.append)
    program = f"import socket\nfor n in range({words}): print(socket.socket().connect_ex(('203.0.113.7', 81 + n)))"
    wanted = [f"203.0.113.7:{81 + n}" for n in range(words)]
    try:
        result = Cage(Policy(hosts=["example.org"]), runtime=runtime).run(["python3", "-c", program])
        assert result.stdout.split() == [str(errno.ECONNREFUSED)] * words
        assert sorted(each.target for each in result.denials) == wanted
    finally:
        runtime.drain()
    assert sum(event.type == TCP_DENIED.name for event in events) == words


@pytest.mark.parametrize("moment", ["long after", "while they are handed over"])
def test_a_cage_that_ends_leaves_nothing_of_what_it_said_untold_and_nothing_behind(runtime: Any, moment: str) -> None:
    live = admitted(runtime)
    keeper, session = live.keeper, live.session

    def ends() -> None:
        if moment == "while they are handed over":
            with socket.socket(type=socket.SOCK_DGRAM) as client:
                client.sendto(ASKED, live.place)
            assert keeper.quiet.hand_over(session)
        session._end()

    if moment == "long after":
        assert live.asks()
    in_loop(keeper.loop, ends)
    with keeper._lock:
        assert keeper._leaving.wait_for(lambda: session not in keeper._sessions, 20)
    assert [each.target for each in session.ledger.denials()] == ["evil.com"]
    assert session.ended and not in_loop(keeper.loop, lambda: keeper.reader._requests._sessions)


def test_who_asks_while_doors_are_handed_over_hears_of_what_came_to_them(runtime: Any) -> None:
    """The reader is asked when it knows the cage, and before the tasks have begun that hand it the doors."""
    other, live = admitted(runtime), admitted(runtime)
    assert other.asks()
    keeper, session, asked, heard = live.keeper, live.session, threading.Event(), list[Any]()
    asking = threading.Thread(target=lambda: heard.extend(session.denials()))
    introduce, call = keeper.reader.introduce, keeper.loop.call_soon_threadsafe

    def introduced(known: Any) -> None:
        introduce(known)
        if not asked.is_set():
            keeper.loop.call_soon_threadsafe = lambda *of: (call(*of), asked.set())
            asking.start()
            assert asked.wait(20)

    keeper.reader.introduce = introduced
    with socket.socket(type=socket.SOCK_DGRAM) as client:
        client.sendto(ASKED, live.place)
        asking.join(20) if asked.wait(20) else None
    assert not asking.is_alive() and [each.target for each in heard] == ["evil.com"]
    for each in (other, live):
        each.session.end()


def test_rules_that_became_narrower_before_it_spoke_hold(runtime: Any) -> None:
    wide, narrow = (admitted(runtime, "a.com") for _ in range(2))
    assert narrow.session.tighten(()) == 0
    assert wide.asks(A_COM)[3] & 0xF != NXDOMAIN and narrow.asks(A_COM)[3] & 0xF == NXDOMAIN
    assert [each.target for each in narrow.session.denials()] == ["a.com"] and not wide.session.denials()
    for live in (wide, narrow):
        live.session.end()


def test_one_that_was_silent_when_the_reader_died_has_the_next_one(runtime: Any) -> None:
    spoken, silent = admitted(runtime), admitted(runtime)
    assert spoken.asks()
    died = spoken.kill_reader()
    with pytest.raises(ConnectionRefusedError):
        spoken.asks()
    assert silent.asks()[3] & 0xF == NXDOMAIN
    assert silent.keeper.reader.process is not died
    assert [each.target for each in silent.session.denials()] == ["evil.com"]
    (refused, cut_off) = spoken.session.denials()
    assert (refused.target, cut_off.kind, cut_off.target) == ("evil.com", "tcp", "(every host)")
    assert "new Cage" in cut_off.rule and cut_off.fix == ""
    for live in (spoken, silent):
        live.session.end()


def test_they_are_counted_as_what_cages_have_open(runtime: Any) -> None:
    first = admitted(runtime)
    assert first.asks()
    limit, taken = descriptors(first)
    second = admitted(runtime)
    assert descriptors(first) == (limit - 1, taken)
    assert second.asks()
    assert descriptors(first) == (limit, taken + 1)
    for live in (first, second):
        live.session.end()


def test_a_forked_copy_keeps_none_and_takes_none_away(runtime: Any) -> None:
    live = admitted(runtime)
    child = os.fork()
    if not child:
        live.keeper.after_fork_in_child()
        os._exit(0 if {door.fileno() for door in live.session.doors} == {-1} else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert live.asks()[3] & 0xF == NXDOMAIN
    live.session.end()


def test_rules_that_the_reader_cannot_be_told_close_the_doors_and_are_told(runtime: Any) -> None:
    """They are longer than a record of the channel. Another cage is served as ever."""
    other = admitted(runtime)
    live = admitted(runtime, *(f"name-{number:05}.of-a-very-long-list.example" for number in range(8000)))
    live.knocks()
    live.keeper.wait_begun()
    assert {door.fileno() for door in live.session.doors} == {-1}
    with pytest.raises(ConnectionRefusedError):
        live.asks()
    assert [each.type for each in runtime.events if "record that is too long" in str(each.data)]
    assert live.session.reader is None and other.asks()[3] & 0xF == NXDOMAIN
    assert live.session.number not in in_loop(live.keeper.loop, lambda: live.keeper.reader._requests._sessions)
    for each in (live, other):
        each.session.end()


def test_doors_that_cannot_be_watched_are_closed(runtime: Any) -> None:
    other = admitted(runtime)
    live, keeper = Live(), other.keeper
    watched, whole = keeper.quiet.descriptors, keeper.quiet._epoll
    keeper.quiet._epoll = Lacking()
    try:
        with pytest.raises(StartError, match="network"):
            admit(runtime, live, net_plan())
    finally:
        keeper.quiet._epoll = whole
    assert keeper.quiet.descriptors == watched and runtime.collected == [live]
    assert not in_loop(keeper.loop, lambda: [each for each in keeper._sessions if each is not other.session])
    with pytest.raises(ConnectionRefusedError):
        live.asks()
    other.session.end()


LOOKS_UP = ["/usr/bin/python3", "-I", "-S", "-c", "import socket; socket.getaddrinfo('evil.com', 80)"]


@pytest.mark.parametrize("dies", [False, True])
def test_each_command_of_a_cage_whose_reader_has_died_is_told_why_its_connections_fail(dies: bool) -> None:
    policy = Policy(egress="proxy-only", hosts=[{"domain": "a.example"}])
    with Cage(policy) as cage:
        first = cage.run(LOOKS_UP)
        assert [each.target for each in first.denials] == ["evil.com"]
        keeper = cage.runtime.shared.find(Gatekeeper)
        assert keeper is not None and keeper.reader.process is not None
        died = keeper.reader.process
        if dies:
            died.kill()
            died.wait()
            in_loop(keeper.loop, lambda: None)
        later = [cage.run(LOOKS_UP) for _ in range(2)]
        for each in later:
            assert each.exit_code == 1
            (told,) = each.denials
            assert (told.target == "(every host)" and "has ended" in told.rule) if dies else told.target == "evil.com"
        assert not cage.run(["true"]).denials, "whoever needed no network was refused nothing"
    (anew,) = Cage(policy).run(LOOKS_UP).denials
    assert anew.target == "evil.com"
