"""The thread that serves the doors: cages come and go, and its death cuts them off."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from typing import Any

import pytest

from _support.admitted import Live, admitted, runtime_of_cages
from _support.gate import net_plan
from pysandbox.errors import StartError
from pysandbox.events import Event, ignore
from pysandbox.gate.gatekeeper import Gatekeeper, admit, join_gatekeeper
from pysandbox.gate.tcp.target import DialTarget
from pysandbox.gate.threads import in_loop
from pysandbox.policy.endpoint import parse_endpoint
from pysandbox.policy.names import HOST_ALIAS


@pytest.fixture
def runtime() -> Iterator[Any]:
    with runtime_of_cages() as runtime:
        yield runtime


def serving(runtime: Any) -> Gatekeeper:
    return join_gatekeeper(runtime, lambda keeper: keeper)


def left(live: Live) -> None:
    """Ends it, and waits until it has left."""
    keeper, session = live.keeper, live.session
    session.end()
    in_loop(keeper.loop, lambda: None)
    with keeper._lock:
        assert keeper._leaving.wait_for(lambda: session not in keeper._sessions, 10)


def test_one_gatekeeper_serves_all_cages_and_ends_when_the_last_has_left(runtime):
    one, other = admitted(runtime), admitted(runtime)
    keeper = runtime.shared.find(Gatekeeper)
    assert one.asks()[3] & 0xF == other.asks()[3] & 0xF == 3
    left(one)
    assert not keeper.retire()
    with pytest.raises(ConnectionRefusedError):
        one.asks()
    assert other.asks()
    left(other)
    assert keeper.retire() and not keeper._thread.is_alive() and keeper.loop.is_closed()
    assert serving(runtime) is not keeper


@pytest.mark.parametrize("death", ["stopped", "raised"])
def test_its_death_closes_every_door_and_is_an_event(runtime, death):
    live = admitted(runtime)
    cut: list[str] = []
    with socket.create_server(("127.0.0.1", 0)) as listener, socket.create_connection(listener.getsockname()) as there:
        port = listener.getsockname()[1]
        live.session.rules = live.session.rules.of(net_plan(ips=(f"127.0.0.1:{port}",)))
        target = DialTarget("127.0.0.1", port)
        in_loop(live.session.loop, lambda: live.session.connections.register(target, there, lambda: cut.append("cut")))
        keeper = runtime.shared.find(Gatekeeper)

        def die() -> None:
            raise SystemExit("a bug")

        keeper.loop.call_soon_threadsafe(keeper.loop.stop if death == "stopped" else die)
        keeper._thread.join(10)
    assert keeper.retired and cut == ["cut"]
    with pytest.raises(ConnectionRefusedError):
        live.asks()
    assert [each.type for each in runtime.events] == ["gatekeeper.failed"]
    assert live.session.tighten(()) == 0  # nothing is left to be cut, and nobody is waited for
    live.session.end()
    successor = admitted(runtime)
    assert successor.asks()  # the next cage has a new one
    left(successor)


def test_a_cage_that_ends_at_once_leaves_no_door(runtime):
    live = admitted(runtime)
    doors = live.session.doors
    live.session.end()  # most likely before the loop has begun to serve it
    assert runtime.shared.find(Gatekeeper).retire()
    assert all(door.fileno() < 0 for door in doors)


@pytest.mark.parametrize("reader", ["is to begin", "has begun"])
def test_a_cage_that_cannot_be_admitted_does_not_start(runtime, reader):
    keeper = serving(runtime)
    keeper._has_begun = reader == "has begun"
    keeper.loop.call_soon_threadsafe(keeper.loop.stop)
    keeper._thread.join(10)
    keeper._retired = False  # it has not been noticed yet
    live = Live()
    with pytest.raises(StartError, match="network"):
        admit(runtime, live, net_plan())
    assert runtime.collected == [live] and keeper.quiet.descriptors == 0 and not keeper._sessions
    with pytest.raises(ConnectionRefusedError):
        live.asks()
    keeper._retired = True


def test_tightening_holds_when_it_returns(runtime):
    live = admitted(runtime, "a.com", loopback=())
    assert live.session.rules.name(HOST_ALIAS, 1).allowed
    assert live.session.tighten((parse_endpoint("8.8.8.8"),)) == 0
    assert not live.session.rules.resolved("a.com", live.session.names.address_of("a.com"), 1, own=False).allowed
    live.session.tighten(())
    assert not live.session.rules.name("a.com", None).allowed
    left(live)


def test_a_sink_that_fails_is_survived():
    def broken(event: Event) -> None:
        raise RuntimeError("a bug of the user's")

    keeper = Gatekeeper(broken, ["127.0.0.1:9"])
    live = Live()
    keeper.admit(live, net_plan(), []).end()
    assert keeper.retire()
    other = Live()
    keeper = Gatekeeper(broken, ["127.0.0.1:9"])
    other.keeper = keeper
    other.services.add(keeper.admit(other, net_plan(), []))
    assert other.asks() and other.asks()
    left(other)
    assert keeper.retire()


def test_a_forked_copy_keeps_no_door(runtime):
    live = admitted(runtime)
    live.knocks()
    live.keeper.wait_begun()
    assert {door.fileno() for door in live.session.doors} == {-1}  # the reader has them, and the copy its channel
    channel = live.keeper.reader._channel.fileno()
    live.keeper.after_fork_in_child()
    with pytest.raises(OSError, match="Bad file"):
        os.fstat(channel)
    left(live)


def test_a_reader_that_has_died_closes_its_doors_and_is_followed_by_another(runtime):
    first = admitted(runtime)
    assert first.asks()
    died = first.kill_reader()
    with pytest.raises(ConnectionRefusedError):
        first.asks()
    second = admitted(runtime)
    assert second.asks()
    assert second.keeper is first.keeper and second.keeper.reader.process is not died
    left(first)
    left(second)


def test_nothing_is_asked_of_a_sink_that_ignores(runtime):
    runtime.sink = ignore
    live = admitted(runtime)
    assert live.asks()
    assert live.session.ledger.counts == {"gatekeeper.dns_denied": 1}
    left(live)
