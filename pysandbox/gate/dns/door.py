"""The dns door of a cage, over UDP and over TCP (RFC 7766): a name that may be reached has a synthetic address there,
every other one does not exist.

Nothing of what a cage asks leaves the host but the name itself, and that only when a rule allows it: the question goes
upstream as A (or AAAA where the policy has it resolved), whatever else was asked of an allowed name has no data, so
neither TXT nor anything else carries bytes. What is asked of a cage's own loopback is answered here.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from contextlib import closing, suppress
from functools import partial
from ipaddress import IPv4Address

from pysandbox.gate.askers import DoorClient, serve_for, served
from pysandbox.gate.direct import grant_direct
from pysandbox.gate.dns import message
from pysandbox.gate.dns.message import (
    AAAA,
    NOERROR,
    NXDOMAIN,
    PTR,
    REFUSED,
    SERVFAIL,
    A,
    Malformed,
    Question,
    ResourceRecord,
)
from pysandbox.gate.dns.resolver import LONGEST_TTL, NotAsked
from pysandbox.gate.rules import Decision
from pysandbox.gate.tcp.stream import ClientStream, until_readable
from pysandbox.gate.tcp.transparent import peer_of
from pysandbox.policy.names import HOST_ALIAS, BadName, canonical
from pysandbox.shapes import TYPE_CHECKING, Any, Protocol, TypeAlias

if TYPE_CHECKING:
    from pysandbox.gate.cage_session import CageSession
    from pysandbox.gate.doors import DoorSession

QUESTIONS_AT_ONCE = 64  # of one cage, upstream; what comes while so many are under way is dropped, and asked again
READ_AT_ONCE = 4  # datagrams in one turn
LONGEST_QUESTION = 4096  # bytes
STREAMS = 16  # TCP connections of one cage at once
IDLE_SECONDS = 10.0  # of a TCP connection, for the next question as for taking an answer
ACCEPT_PAUSE = 0.1  # seconds after an accept that failed
LOCALHOST = IPv4Address("127.0.0.1")
REVERSE = (b"in-addr", b"arpa")


Answering: TypeAlias = "bytes | asyncio.Task[bytes] | None"


class Begins(Protocol):
    def begin(self, asked: bytes) -> Answering:
        """The answer; a task where it is not known yet; None for what gets no answer."""


class Answers:
    """Answers the questions of one cage, whichever way they come."""

    def __init__(self, session: CageSession) -> None:
        self._session = session
        self._under_way = 0

    def begin(self, asked: bytes) -> Answering:
        """The answer; a task where the name must be looked up first; None for what gets no answer."""
        try:
            question = message.read_question(asked)
        except Malformed as malformed:
            return message.refusal(malformed)
        return self.answer(question)

    def answer(self, question: Question) -> Answering:
        """As `begin`, of a question that was read already."""
        if question.kind == PTR and question.labels[-2:] and _lower(question.labels[-2:]) == REVERSE:
            return self._reverse(question)
        try:
            name = _name_of(question)
        except BadName as error:
            return self._refuse(question, _shown(question), Decision(False, f"not a name: {error}", ""))
        if self._is_own(name):
            return message.answer(question, NOERROR, [_address(LOCALHOST, LONGEST_TTL)] if question.kind == A else [])
        decision = self._session.rules.name(name, None)
        if not decision.allowed:
            return self._refuse(question, name, decision)
        if self._under_way >= QUESTIONS_AT_ONCE:
            return None
        self._under_way += 1
        task = self._session.start(self._look_up(question, name))
        task.add_done_callback(self._answered)
        return task

    def _is_own(self, name: str) -> bool:
        """The cage's own loopback: `localhost` is never anybody else's (RFC 6761, 6.3), nor is its host name."""
        return name == "localhost" or name.endswith(".localhost") or name == self._session.hostname

    def _answered(self, _: asyncio.Task[bytes]) -> None:
        """A done callback, because it runs even for a task that was cancelled before it began."""
        self._under_way -= 1

    def _refuse(self, question: Question, name: str, decision: Decision) -> bytes:
        self._session.ledger.denied("dns", name, None, decision)
        return message.answer(question, NXDOMAIN)

    def _reverse(self, question: Question) -> bytes:
        """The name of a synthetic address. For any other address no name server is asked."""
        name = _reversed(question, self._session)
        if name is None:
            return self._refuse(question, _shown(question), Decision(False, "network.egress", ""))
        return message.answer(question, NOERROR, [ResourceRecord(PTR, LONGEST_TTL, message.written(name))])

    async def _look_up(self, question: Question, name: str) -> bytes:
        try:
            return message.answer(question, *await self._found(question.kind, name))
        except NotAsked as refused:
            self._session.ledger.denied("dns", refused.shown, None, refused.decision)
            return message.answer(question, REFUSED)
        except OSError:  # written down where it happened
            return message.answer(question, SERVFAIL)

    async def _found(self, kind: int, name: str) -> tuple[int, list[ResourceRecord]]:
        """The code and the records. Raises OSError."""
        session = self._session
        if kind == AAAA and session.net.ipv6 == "nxdomain":
            return NXDOMAIN, []
        if name == HOST_ALIAS:
            return NOERROR, [await self._synthetic(name, LONGEST_TTL)] if kind == A else []
        if session.rules.by_parent(name):  # which knows it, and whether there is such a name
            session.may_ask(name)
            return NOERROR, [await self._synthetic(name, LONGEST_TTL)] if kind == A else []
        if kind == AAAA and session.net.ipv6 == "resolve":
            answer = await session.lookup(name, six=True)
            six = [each for each in answer.addresses if each.version == 6]
            records = [ResourceRecord(AAAA, answer.lifetime, each.packed) for each in six]
            return NOERROR if answer.exists else NXDOMAIN, records
        answer = await session.lookup(name)
        if not answer.exists:
            return NXDOMAIN, []
        if kind == A and not answer.addresses and session.net.ipv6 == "resolve":
            answer = await session.lookup(name, six=True)  # the cage reaches it by the door, which has IPv6
        if kind != A or not answer.addresses:
            return NOERROR, []
        grant_direct(session, name, answer)
        return NOERROR, [await self._synthetic(name, answer.lifetime, str(answer.addresses[0]))]

    async def _synthetic(self, name: str, ttl: int, resolved: str = "") -> ResourceRecord:
        address = await self._session.check_address(name)
        self._session.ledger.allowed("dns", name, resolved=resolved or str(address))
        return _address(address, ttl)


def _name_of(question: Question) -> str:
    """The canonical name in a question. Raises BadName, for an address too: there is nothing to resolve."""
    if any(b"." in each for each in question.labels):
        raise BadName("a label has a dot in it")
    name = canonical(b".".join(question.labels))
    if not isinstance(name, str):
        raise BadName(f"{name} is an address")
    return name


def _shown(question: Question) -> str:
    """A malformed name as the record shows it: on one line, in ASCII."""
    return b".".join(question.labels).decode("latin-1").encode("unicode_escape").decode("ascii") or "."


def _reversed(question: Question, session: CageSession) -> str | None:
    try:
        address = IPv4Address(b".".join(reversed(question.labels[:-2])).decode("ascii"))
    except ValueError:
        return None
    return "localhost" if address == LOCALHOST else session.names.name_of(address)


def _lower(labels: tuple[bytes, ...]) -> tuple[bytes, ...]:
    return tuple(each.lower() for each in labels)


def _address(address: IPv4Address, ttl: int) -> ResourceRecord:
    return ResourceRecord(A, ttl, address.packed)


# ---- UDP ------------------------------------------------------------------------------------------------------------


async def serve_udp(session: DoorSession, door: socket.socket, answers: Begins) -> None:
    """Serves UDP until it is cancelled. The caller closes `door`."""
    waiting: set[asyncio.Task[None]] = set()
    door.setblocking(False)
    try:
        while True:
            await until_readable(door)
            await session.turns.take()
            _answer_some(door, answers, waiting)
    finally:
        await _cancelled(waiting)


def _answer_some(door: socket.socket, answers: Begins, waiting: set[asyncio.Task[None]]) -> None:
    for _ in range(READ_AT_ONCE):
        try:
            asked, peer = door.recvfrom(LONGEST_QUESTION)
        except OSError:  # nothing more; or an ICMP error of an earlier answer
            return
        with served(DoorClient("udp", peer[:2])):
            answer = answers.begin(asked)
        if isinstance(answer, bytes):
            _send(door, answer, peer)
        elif answer is not None:
            task = asyncio.get_running_loop().create_task(_send_later(door, answer, peer))
            waiting.add(task)
            task.add_done_callback(waiting.discard)


def _send(door: socket.socket, answer: bytes, peer: Any) -> None:
    with suppress(OSError):  # its buffer is full: it asks again
        door.sendto(answer, peer)


async def _send_later(door: socket.socket, answer: asyncio.Task[bytes], peer: Any) -> None:
    _send(door, await answer, peer)


# ---- TCP ------------------------------------------------------------------------------------------------------------


async def serve_tcp(session: DoorSession, door: socket.socket, answers: Begins) -> None:
    """Serves TCP until it is cancelled. Questions may be pipelined; each is answered as soon as its answer is known."""
    loop = asyncio.get_running_loop()
    streams: set[asyncio.Task[None]] = set()
    door.setblocking(False)
    try:
        while True:
            connection = await _accepted(door)
            await session.turns.take()
            if len(streams) >= STREAMS or not session.descriptors.take_or_tell():
                connection.close()
                continue
            task = loop.create_task(_converse(ClientStream(connection, session.turns), answers.begin))
            streams.add(task)
            task.add_done_callback(partial(_over, streams, session))
    finally:
        await _cancelled(streams)


def _over(streams: set[asyncio.Task[None]], session: DoorSession, task: asyncio.Task[None]) -> None:
    streams.discard(task)
    session.descriptors.give()


async def _accepted(door: socket.socket) -> socket.socket:
    while True:
        try:
            await until_readable(door)
            connection = door.accept()[0]
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return connection
        except (BlockingIOError, ConnectionAbortedError):
            continue
        except OSError:  # it has gone already, or this process has no descriptor left for now
            await asyncio.sleep(ACCEPT_PAUSE)


async def _converse(stream: ClientStream, begin: Callable[[bytes], Answering]) -> None:
    serve_for(partial(peer_of, stream.sock))
    loop = asyncio.get_running_loop()
    writing = asyncio.Lock()
    waiting: set[asyncio.Task[None]] = set()

    async def say(answer: bytes | asyncio.Task[bytes]) -> None:
        found = answer if isinstance(answer, bytes) else await answer
        async with writing, asyncio.timeout(IDLE_SECONDS):
            await stream.send(len(found).to_bytes(2, "big") + found)

    with closing(stream):
        try:
            while (asked := await _next(stream)) is not None:
                answer = begin(asked)
                if answer is None:
                    break  # too much at once, or nonsense: it may come again
                if isinstance(answer, bytes):
                    await say(answer)
                else:
                    task = loop.create_task(say(answer))
                    waiting.add(task)
                    task.add_done_callback(partial(_answered, waiting))
            if waiting:
                await asyncio.wait(waiting)  # it has said all, and may still read
        except OSError:  # it is gone, or was idle for too long
            return
        finally:
            await _cancelled(waiting)


def _answered(waiting: set[asyncio.Task[None]], done: asyncio.Task[None]) -> None:
    """Sends an answer when it is known. A failure is ignored: the client has gone, or does not read."""
    waiting.discard(done)
    if not done.cancelled():
        done.exception()


async def _next(stream: ClientStream) -> bytes | None:
    """The next question; None at the end. Each takes a turn, even if several came at once. Raises OSError."""
    await stream.turns.take()
    async with asyncio.timeout(IDLE_SECONDS):
        size = int.from_bytes(await stream.exactly(2), "big")
        if not 0 < size <= LONGEST_QUESTION:
            return None
        return await stream.exactly(size) or None


async def _cancelled(tasks: set[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    if tasks:
        await asyncio.gather(*tasks, return_exceptions=True)
