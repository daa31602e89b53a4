"""From what was asked for to a connected socket: rules, names, addresses, in that order and only once."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator
from contextlib import closing
from ipaddress import ip_address

import pytest

from _support.gate import admitted, net_plan, upstream
from _support.nameserver import A, NameServer
from pysandbox.events import Event
from pysandbox.gate.direct import grant_direct
from pysandbox.gate.dns.resolver import Answer
from pysandbox.gate.rules import sixteen
from pysandbox.gate.tcp import target as gate_target
from pysandbox.gate.tcp.dial import dial
from pysandbox.gate.tcp.target import Denied, DialTarget, Unreachable, target_of
from pysandbox.policy.endpoint import parse_endpoint
from pysandbox.policy.names import HOST_ALIAS


@pytest.fixture
def service() -> Iterator[int]:
    """A listening port on the host's loopback."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener.getsockname()[1]


@pytest.fixture
def server() -> Iterator[NameServer]:
    with NameServer({("a.com", A): ["127.0.0.1"], ("b.com", A): ["169.254.169.254"]}, ttl=0) as server:
        yield server


def try_to_dial(target: DialTarget, net, server: NameServer, events: list[Event]) -> str:
    async def attempt() -> str:
        session = admitted(net, upstream(server.place), events)
        with closing(await dial(session, target)) as connected:
            return str(connected.getpeername()[0])

    return asyncio.run(attempt())


def test_an_allowed_name_whose_address_is_listed_is_connected(service, server):
    events: list[Event] = []
    net = net_plan("a.com", ips=(f"127.0.0.1:{service}",))
    assert try_to_dial(DialTarget("A.com.", service), net, server, events) == "127.0.0.1"
    assert events == [Event("gatekeeper.tcp_allowed", {"invocation_id": "cage", "target": "a.com", "port": service})]


@pytest.mark.parametrize(("host", "rule"), [("a.com", "host_loopback_ports"), ("b.com", "allow_ips")])
def test_an_allowed_name_does_not_lead_to_the_host_itself_or_to_metadata(host, rule, service, server):
    """Rebinding: whoever owns an allowed name may have it resolve to anything."""
    events: list[Event] = []
    with pytest.raises(Denied) as caught:
        try_to_dial(DialTarget(host, service), net_plan(host), server, events)
    assert caught.value.decision.rule.partition(":")[0] == f"network.{rule}"
    assert [each.type for each in events] == ["gatekeeper.tcp_denied"]


def test_a_refused_name_is_not_even_asked_for(service, server):
    with pytest.raises(Denied):
        try_to_dial(DialTarget("evil.com", service), net_plan("a.com"), server, [])
    assert server.asked == []


@pytest.mark.parametrize(
    "host",
    ["127.0.0.1", "2130706433", "0177.0.0.1", "0x7f.1", "127.1", "::ffff:127.0.0.1", "[::ffff:7f00:1]", "localhost",
     "127.0.0.1.", "a.com\0.evil.com", "a.com.evil.com", "evila.com", "x@a.com", "a.com%00", "0.0.0.0", "198.18.0.1",
     "198.18.1.7", "b" * 300, ""],
)  # fmt: skip
def test_no_spelling_leads_where_no_rule_does(host, service, server):
    events: list[Event] = []
    with pytest.raises(Denied):
        try_to_dial(DialTarget(host, service), net_plan("a.com", ips=("0.0.0.0/0", "::/0")), server, events)
    assert [each.type for each in events] == ["gatekeeper.tcp_denied"]
    assert server.asked == []


def test_the_alias_leads_to_the_hosts_loopback_and_only_where_it_is_allowed(service, server):
    assert try_to_dial(DialTarget(HOST_ALIAS, service), net_plan(loopback=(service,)), server, []) == "127.0.0.1"
    for net in (net_plan("a.com"), net_plan(loopback=(1,))):
        with pytest.raises(Denied):
            try_to_dial(DialTarget(HOST_ALIAS, service), net, server, [])


def test_a_synthetic_address_is_its_name_again(service, server):
    async def by_address() -> str:
        session = admitted(net_plan("a.com", ips=("127.0.0.1",)), upstream(server.place), [])
        synthetic = session.names.address_of("a.com")
        assert target_of(session, synthetic, 1) == target_of(session, str(synthetic), 1) == DialTarget("a.com", 1)
        with closing(await dial(session, DialTarget(str(synthetic), service))) as connected:
            return str(connected.getpeername()[0])

    assert asyncio.run(by_address()) == "127.0.0.1"


def test_what_cannot_be_had_says_why(server):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # does not listen
        port = taken.getsockname()[1]
        with pytest.raises(Unreachable, match="refused") as caught:
            try_to_dial(DialTarget("a.com", port), net_plan("a.com", ips=("127.0.0.1",)), server, [])
    assert caught.value.errno == 111
    with pytest.raises(Unreachable):
        try_to_dial(DialTarget("none.com", 80), net_plan("none.com"), server, [])


def test_resolvers_that_are_gone_are_told_of():
    events: list[Event] = []

    async def attempt() -> None:
        await dial(admitted(net_plan("a.com"), upstream(), events), DialTarget("a.com", 80))

    with pytest.raises(Unreachable):
        asyncio.run(attempt())
    assert [each.type for each in events] == ["gatekeeper.upstream_unreachable"]


def test_the_address_that_answers_is_taken_when_another_does_not(service):
    with NameServer({("a.com", A): ["127.0.0.2", "127.0.0.1"]}) as server:
        net = net_plan("a.com", ips=("127.0.0.1", "127.0.0.2"))
        assert try_to_dial(DialTarget("a.com", service), net, server, []) == "127.0.0.1"


def test_tightening_cuts_what_lost_its_grant_and_leaves_the_rest(service, server):
    cut: list[str] = []

    async def tighten() -> None:
        net = net_plan("a.com", loopback=(), ips=(f"127.0.0.1:{service}",))
        session = admitted(net, upstream(server.place), [])
        with closing(await dial(session, DialTarget("a.com", service))) as named:
            number = session.connections.register(DialTarget("a.com", service), named, lambda: cut.append("named"))
            with closing(await dial(session, DialTarget("127.0.0.1", service))) as plain:
                session.connections.register(DialTarget("127.0.0.1", service), plain, lambda: cut.append("plain"))
                assert session.tighten((parse_endpoint(f"127.0.0.1:{service}"),)) == 0 and cut == []
                session.connections.unregister(number)
                assert session.tighten((parse_endpoint("8.8.8.8"),)) == 1
                with pytest.raises(OSError):
                    plain.send(b"never sent")
                await asyncio.sleep(0)
                assert cut == ["plain"]
                with pytest.raises(Denied):
                    session.connections.register(DialTarget("a.com", service), named, lambda: None)
        with pytest.raises(Denied) as caught:
            await dial(session, DialTarget("a.com", service))
        assert caught.value.decision.rule == "policy_fn"

    asyncio.run(tighten())


def test_who_tightens_waits_until_what_was_cut_has_ended(service, server):
    ended: list[str] = []

    async def tighten() -> None:
        target = DialTarget("127.0.0.1", service)
        session = admitted(net_plan(ips=(f"127.0.0.1:{service}",)), upstream(server.place), [])

        async def carry() -> None:
            with closing(await dial(session, target)) as connected:
                task = asyncio.current_task()
                assert task is not None
                number = session.connections.register(target, connected, task.cancel)
                try:
                    await asyncio.get_running_loop().create_future()
                finally:
                    session.connections.unregister(number)
                    ended.append("carried")

        carrying = asyncio.create_task(carry())
        while not session.connections:
            await asyncio.sleep(0.001)
        tightened = await asyncio.get_running_loop().run_in_executor(None, session.tighten, ())
        assert tightened == 1 and ended == ["carried"]
        await asyncio.wait([carrying])

    asyncio.run(tighten())


def test_rules_that_are_tightened_while_it_connects_hold_for_what_it_connects(service, server):
    async def race() -> None:
        session = admitted(net_plan("a.com", ips=("127.0.0.1",)), upstream(server.place), [])
        dialling = asyncio.create_task(dial(session, DialTarget("a.com", service)))
        await asyncio.sleep(0)  # it has looked at the rules, and asks for the address
        session.tighten(())
        with pytest.raises(Denied):
            await dialling

    asyncio.run(race())


class Supervision:
    """Takes direct grants, or refuses them."""

    def __init__(self, failure: OSError | None = None) -> None:
        self.granted: list[tuple[bytes, bytes, int, int, float]] = []
        self._failure = failure

    def grant_address(self, *granted: object) -> None:
        if self._failure is not None:
            raise self._failure
        self.granted.append(granted)


@pytest.mark.parametrize(("address", "granted"), [("203.0.113.7", True), ("127.0.0.1", False), ("10.0.0.1", False)])
def test_a_direct_grant_is_made_for_the_addresses_that_a_dial_would_take(address, granted):
    supervision = Supervision()

    async def resolve() -> None:
        session = admitted(net_plan("a.com", ports=(443,), direct=True), upstream(), [])
        session.grant = supervision.grant_address
        grant_direct(session, "a.com", Answer((ip_address(address),), 30))

    asyncio.run(resolve())
    synthetic, real = sixteen(ip_address("198.19.0.0")), sixteen(ip_address(address))
    assert supervision.granted == ([(synthetic, real, 443, 443, 30.0)] if granted else [])


@pytest.mark.parametrize(("ports", "listed", "granted"), [
    ((), "203.0.113.7:1", []), ((), "203.0.113.7", []), ((1,), "203.0.113.7:1", [(1, 1)]),
    ((1, 2), "203.0.113.7:1", [(1, 1)]), ((), "203.0.113.0/24", []),
])  # fmt: skip
def test_a_name_that_leads_to_the_host_itself_is_granted_port_by_port(monkeypatch, ports, listed, granted):
    """Whoever owns the name points it at an address of the host's, of which the policy lists one port: the first of
    those that the name may be dialled at. The others stay the host's."""
    monkeypatch.setattr(gate_target, "_is_own", lambda packed, second: True)
    supervision = Supervision()

    async def resolve() -> None:
        session = admitted(net_plan("a.com", ports=ports, ips=(listed,), direct=True), upstream(), [])
        session.grant = supervision.grant_address
        grant_direct(session, "a.com", Answer((ip_address("203.0.113.7"),), 30))

    asyncio.run(resolve())
    assert [(first, last) for _, _, first, last, _ in supervision.granted] == granted


@pytest.mark.parametrize("direct", [True, False])
def test_a_direct_grant_that_is_not_taken_or_not_asked_for_leaves_the_relay(direct):
    supervision = Supervision(OSError("no room"))

    async def resolve() -> None:
        session = admitted(net_plan("a.com", direct=direct), upstream(), [])
        session.grant = supervision.grant_address
        grant_direct(session, "a.com", Answer((ip_address("203.0.113.7"),), 30))
        assert session.rules.name("a.com", 443).allowed

    asyncio.run(resolve())
