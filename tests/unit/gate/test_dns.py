"""The dns door: what a cage is answered, over UDP and TCP, and what is never asked upstream."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Awaitable, Callable

import pytest

from _support.gate import admitted, net_plan, upstream
from _support.nameserver import AAAA, TXT, A, NameServer
from pysandbox.events import Event
from pysandbox.gate.cage_session import CageSession
from pysandbox.gate.dns import door as dns
from pysandbox.policy.names import HOST_ALIAS

NXDOMAIN, SERVFAIL, FORMERR = 3, 2, 1
PTR, MX, SRV, HTTPS, ANY = 12, 15, 33, 65, 255
RECORDS = {
    ("a.com", A): ["8.8.8.8"], ("a.com", TXT): ["secret"], ("a.com", AAAA): ["2001:db8::1"], ("six.com", AAAA): ["::1"],
    ("x.evil.com", A): ["8.8.8.8"], ("inside.com", A): ["127.0.0.1"],
}  # fmt: skip


def question(name: str, kind: int = A, number: int = 77) -> bytes:
    labels = b"".join(bytes([len(each)]) + each.encode() for each in name.split(".") if each)
    return struct.pack("!6H", number, 0x0100, 1, 0, 0, 0) + labels + b"\0" + struct.pack("!2H", kind, 1)


def code(answer: bytes) -> int:
    return answer[3] & 0xF


def address(answer: bytes) -> tuple[str, int]:
    """The address in the last record, and how long it holds."""
    return socket.inet_ntoa(answer[-4:]), struct.unpack("!I", answer[-10:-6])[0]


class Door:
    """The doors of one session, on loopback."""

    def __init__(self, session: CageSession) -> None:
        self.session = session
        answers = dns.Answers(session)
        self.udp, self.tcp = socket.socket(type=socket.SOCK_DGRAM), socket.socket()
        for each in (self.udp, self.tcp):
            each.bind(("127.0.0.1", 0))
        self.tcp.listen(128)
        loop = asyncio.get_running_loop()
        self._serving = [
            loop.create_task(dns.serve_udp(session, self.udp, answers)),
            loop.create_task(dns.serve_tcp(session, self.tcp, answers)),
        ]

    async def ask(self, *asked: bytes) -> list[bytes]:
        """The answers to questions that are all sent at once, over UDP."""
        loop = asyncio.get_running_loop()
        with socket.socket(type=socket.SOCK_DGRAM) as client:
            client.setblocking(False)
            await loop.sock_connect(client, self.udp.getsockname())
            for each in asked:
                await loop.sock_sendall(client, each)
            return [await asyncio.wait_for(loop.sock_recv(client, 4096), 10) for _ in asked]

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection(*self.tcp.getsockname())

    async def close(self) -> None:
        self.session.close()
        for task in self._serving:
            task.cancel()
        await asyncio.gather(*self._serving, return_exceptions=True)
        self.udp.close()
        self.tcp.close()


Use = Callable[[Door], Awaitable[None]]


def served(
    use: Use, *patterns: str, server: NameServer | None = None, events: list[Event] | None = None, **plan
) -> None:
    async def run() -> None:
        net = net_plan(*patterns, **plan)
        door = Door(admitted(net, upstream(*([server.place] if server else [])), events if events is not None else []))
        try:
            await use(door)
        finally:
            await door.close()

    asyncio.run(run())


def test_an_allowed_name_has_a_synthetic_address_for_at_most_a_minute():
    events: list[Event] = []

    async def use(door: Door) -> None:
        (answer,) = await door.ask(question("A.com"))
        assert code(answer) == 0 and address(answer) == ("198.18.1.0", 60)
        assert b"\1A\3com\0" in answer  # spelled as it was asked

    with NameServer(RECORDS, ttl=300) as server:
        served(use, "a.com", server=server, events=events)
    data = {"invocation_id": "cage", "hostname": "a.com", "resolved_ip": "8.8.8.8"}
    assert events == [Event("gatekeeper.dns_allowed", data)]


def test_a_refused_name_does_not_exist_and_nobody_is_asked():
    events: list[Event] = []

    async def use(door: Door) -> None:
        for kind in (A, AAAA, TXT, MX, ANY):
            (answer,) = await door.ask(question("x.evil.com", kind))
            assert code(answer) == NXDOMAIN

    with NameServer(RECORDS) as server:
        served(use, "a.com", server=server, events=events)
        assert server.asked == []
    assert [(each.type, each.data["hostname"]) for each in events] == [("gatekeeper.dns_denied", "x.evil.com")]


@pytest.mark.parametrize("kind", [TXT, MX, SRV, HTTPS, ANY, 16, 5, 2, 6, 10, 65280])
def test_an_allowed_name_has_no_data_of_any_other_type_and_only_its_address_is_asked_for(kind):
    async def use(door: Door) -> None:
        (answer,) = await door.ask(question("a.com", kind))
        assert code(answer) == 0 and struct.unpack("!H", answer[6:8]) == (0,)

    with NameServer(RECORDS) as server:
        served(use, "a.com", server=server)
        assert {asked for _, asked, _ in server.asked} <= {A}


@pytest.mark.parametrize(("ipv6", "expected"), [("nodata", (0, 0)), ("nxdomain", (NXDOMAIN, 0)), ("resolve", (0, 1))])
def test_ipv6_is_answered_as_the_policy_says(ipv6, expected):
    async def use(door: Door) -> None:
        (answer,) = await door.ask(question("a.com", AAAA))
        assert (code(answer), *struct.unpack("!H", answer[6:8])) == expected
        (four,) = await door.ask(question("a.com"))
        assert (code(four), address(four)[0]) == (0, "198.18.1.0")  # whatever it says of the other family

    with NameServer(RECORDS) as server:
        served(use, "a.com", server=server, ipv6=ipv6)


@pytest.mark.parametrize(("ipv6", "found"), [("resolve", 1), ("nodata", 0), ("nxdomain", 0)])
def test_a_name_of_ipv6_alone_is_reached_where_ipv6_is_resolved(ipv6, found):
    """By its synthetic address: the door has both families."""

    async def use(door: Door) -> None:
        (answer,) = await door.ask(question("six.test"))
        assert (code(answer), *struct.unpack("!H", answer[6:8])) == (0, found)

    with NameServer({("six.test", AAAA): ["2001:db8::1"]}) as server:
        served(use, "six.test", server=server, ipv6=ipv6)


def test_a_name_that_nobody_knows_does_not_exist():
    async def use(door: Door) -> None:
        assert [code(each) for each in await door.ask(question("none.a.com"))] == [NXDOMAIN]

    with NameServer(RECORDS) as server:
        served(use, "**.a.com", server=server)


def test_a_resolver_that_does_not_answer_is_a_failure_and_an_event():
    events: list[Event] = []

    async def use(door: Door) -> None:
        assert [code(each) for each in await door.ask(question("a.com"))] == [SERVFAIL]

    served(use, "a.com", events=events)
    assert [each.type for each in events] == ["gatekeeper.upstream_unreachable"]


def test_two_cages_are_answered_by_their_own_rules():
    answers: dict[str, int] = {}

    def use(allowed: str) -> Use:
        async def ask(door: Door) -> None:
            (answer,) = await door.ask(question("a.com"))
            answers[allowed] = code(answer)

        return ask

    with NameServer(RECORDS) as server:
        for allowed in ("a.com", "b.com"):
            served(use(allowed), allowed, server=server)
    assert answers == {"a.com": 0, "b.com": NXDOMAIN}


def test_loopback_is_the_cages_own_and_the_alias_stands_for_the_hosts():
    async def use(door: Door) -> None:
        local, sub, six, alias = (
            await door.ask(question("localhost"), question("x.localhost"))
            + await door.ask(question("localhost", AAAA))
            + await door.ask(question(HOST_ALIAS))
        )
        assert address(local)[0] == address(sub)[0] == "127.0.0.1"
        assert code(six) == 0
        assert address(alias) == ("198.18.1.0", 60)

    served(use, loopback=())


def test_the_alias_does_not_exist_unless_it_is_allowed():
    async def use(door: Door) -> None:
        assert [code(each) for each in await door.ask(question(HOST_ALIAS))] == [NXDOMAIN]

    served(use, "a.com")


def test_synthetic_addresses_are_named_backwards_and_no_others():
    async def use(door: Door) -> None:
        await door.ask(question("a.com"))
        (known,) = await door.ask(question("0.1.18.198.in-addr.arpa", PTR))
        assert code(known) == 0 and known.endswith(b"\1a\3com\0")
        for other in (
            "1.1.18.198.in-addr.arpa",
            "8.8.8.8.in-addr.arpa",
            "x.in-addr.arpa",
            "in-addr.arpa",
            "1.ip6.arpa",
        ):
            (answer,) = await door.ask(question(other, PTR))
            assert code(answer) == NXDOMAIN

    with NameServer(RECORDS) as server:
        served(use, "a.com", server=server)
        assert [name for name, *_ in server.asked] == ["a.com"]


ODD = [
    b"\x05a.com\0", b"\x05a\0com\0", b"\1a\3com\3com\0", b"\x0bevil@\0\x01\x02xyz\0", b"\1*\3com\0",
    b"\x09127.0.0.1\0",    b"\x03127\x010\x010\x011\0", b"\x0a2130706433\0", b"\0", b"\1a\4com\xff\0",
    b"\5evila\3com\0", b"\1a\3com\4evil\3com\0",
]  # fmt: skip


@pytest.mark.parametrize("name", ODD)
def test_no_odd_spelling_resolves(name):
    events: list[Event] = []

    async def use(door: Door) -> None:
        asked = struct.pack("!6H", 77, 0x0100, 1, 0, 0, 0) + name + struct.pack("!2H", A, 1)
        assert [code(each) for each in await door.ask(asked)] == [NXDOMAIN]

    with NameServer(RECORDS) as server:
        served(use, "a.com", server=server, events=events)
        assert server.asked == []
    assert [each.type for each in events] == ["gatekeeper.dns_denied"]
    assert str(events[0].data["hostname"]).isprintable()


@pytest.mark.parametrize("name", [b"\3x.a\3com\0", b"\1x\5a.com\0", b"\1x\1a\3com\0"])
def test_a_dot_in_any_label_makes_it_no_name(name):
    async def use(door: Door) -> None:
        asked = struct.pack("!6H", 77, 0x0100, 1, 0, 0, 0) + name + struct.pack("!2H", A, 1)
        (answer,) = await door.ask(asked)
        assert (code(answer) == 0) is (b"." not in name)  # without one it is an allowed name

    with NameServer({("x.a.com", A): ["8.8.8.8"]}) as server:
        served(use, "**.a.com", server=server)
        assert bool(server.asked) is (b"." not in name)


def test_what_was_looked_up_makes_room_for_what_is_asked_later():
    async def use(door: Door) -> None:
        for _ in range(dns.QUESTIONS_AT_ONCE + 1):
            (answer,) = await door.ask(question("a.com"))
            assert code(answer) == 0

    with NameServer(RECORDS) as server:
        served(use, "a.com", server=server)


def test_over_tcp_questions_follow_each_other_and_nonsense_ends_the_connection():
    async def use(door: Door) -> None:
        reader, writer = await door.connect()
        for number in range(8):
            asked = question("a.com", number=number)
            writer.write(len(asked).to_bytes(2, "big") + asked)
        numbers = set()
        for _ in range(8):
            answer = await reader.readexactly(int.from_bytes(await reader.readexactly(2), "big"))
            numbers.add(answer[1])
            assert code(answer) == 0
        assert numbers == set(range(8))
        writer.write(b"\xff\xff")
        assert await reader.read() == b""
        writer.close()

    with NameServer(RECORDS) as server:
        served(use, "a.com", server=server)


def test_the_connections_of_a_cage_are_bounded_and_those_that_say_nothing_end(monkeypatch):
    monkeypatch.setattr(dns, "IDLE_SECONDS", 0.2)

    async def use(door: Door) -> None:
        opened = [await door.connect() for _ in range(dns.STREAMS + 1)]
        assert await opened[-1][0].read() == b""  # one too many, at once
        for reader, writer in opened:
            assert await asyncio.wait_for(reader.read(), 10) == b""
            writer.close()
        reader, writer = await door.connect()  # there is room again
        writer.write(b"\0\x17" + question("x.com"))
        assert len(await reader.readexactly(2)) == 2
        writer.close()

    served(use, "a.com")


def test_a_flood_of_questions_is_dropped_and_the_door_answers_after_it():
    async def use(door: Door) -> None:
        with socket.socket(type=socket.SOCK_DGRAM) as flood:
            flood.connect(door.udp.getsockname())
            flood.setblocking(False)
            for number in range(dns.QUESTIONS_AT_ONCE * 3):
                flood.send(question(f"{number}.a.com"))
            (answer,) = await door.ask(question("x.evil.com"))
            assert code(answer) == NXDOMAIN
        assert len(door.session.upstream._asking) <= dns.QUESTIONS_AT_ONCE

    with NameServer(RECORDS, silent=True) as server:
        served(use, "**.a.com", server=server)


def test_junk_is_not_fatal():
    async def use(door: Door) -> None:
        with socket.socket(type=socket.SOCK_DGRAM) as junk:
            junk.connect(door.udp.getsockname())
            for size in range(64):
                junk.send(bytes(range(size)))
        assert [code(each) for each in await door.ask(question("x.com"), b"\0\1\0\0junkjunkjunk")] == [
            NXDOMAIN,
            FORMERR,
        ]

    served(use)
