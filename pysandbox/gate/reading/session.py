"""One cage as the reader knows it: what the code of the doors needs of a cage, with the host program behind it.

Of the `CageSession` it has the same names. Its rules say what may be named in a connection to a listed address and
which requests are the inspector's; whatever leaves is the host's to allow.
"""

from __future__ import annotations

import asyncio
import pickle
import socket
from collections.abc import Callable, Coroutine
from functools import partial
from ipaddress import IPv4Address

from pysandbox.gate.askers import asking
from pysandbox.gate.dns import message
from pysandbox.gate.dns.door import QUESTIONS_AT_ONCE
from pysandbox.gate.doors import Fetched
from pysandbox.gate.monitors import Monitors
from pysandbox.gate.reading.dialling import Dialling
from pysandbox.gate.reading.host_end import HostEnd, HostGone, Received
from pysandbox.gate.reading.kinds import LONGEST_SAID, NO_PORT, Verb, write_peer
from pysandbox.gate.reading.repeats import RepeatDoor, RepeatDoors
from pysandbox.gate.rules import Decision, GateRules
from pysandbox.gate.shares import Account
from pysandbox.gate.tasks import CageTasks
from pysandbox.gate.tcp.stream import ClientStream
from pysandbox.gate.tcp.target import Denied, DialTarget, Unreachable
from pysandbox.gate.turns import LoopTurns
from pysandbox.shapes import TYPE_CHECKING, Any, NamedTuple, TypeVar

if TYPE_CHECKING:
    from pysandbox.gate.dns.door import Answering
    from pysandbox.gate.doors import Offered, Passed, RepeatClient
    from pysandbox.gate.held import HeldConnection

LOOKED_AT = 256  # kinds of refusals of a cage, for each of which the host looks who asks (KINDS_KEPT in gate/ledger.py)

T = TypeVar("T")


class ReadPlan(NamedTuple):
    """What of a cage's plan is needed here: whether its requests are looked at."""

    inspection: bool | None


class ServerSocket(socket.socket):
    """A connection of the host's, which is told when it is closed here."""

    let_go: Callable[[], None] | None = None

    def close(self) -> None:
        is_open = self.fileno() >= 0
        super().close()
        if is_open and self.let_go is not None:
            self.let_go()


class RemoteLedger:
    """What is refused here is recorded by the host. It looks who asks for what is new, and is waited for; not beyond
    LOOKED_AT, of which it looks at none (`gate.ledger`): a cage that is refused without end has nobody wait."""

    def __init__(self, cage: int, host: HostEnd) -> None:
        self._cage, self._host = cage, host
        self._kinds: set[int] = set()

    def denied(self, kind: str, target: str, port: int | None, decision: Decision) -> None:
        shown = NO_PORT if port is None else port
        said = self._cage, kind, target[:300], shown, decision.rule[:300], write_peer(asking())
        if self._is_looked_at(hash(said[1:5])):
            self._host.book(*said)
        else:
            self._host.note(*said)

    def _is_looked_at(self, what: int) -> bool:
        if len(self._kinds) < LOOKED_AT:
            self._kinds.add(what)
        return what in self._kinds

    def crowded(self, what: str, held: int) -> None:
        self._host.say(Verb.CROWDED, self._cage, what, held)


class RemoteConnections:
    """Connections that the host keeps for us, each by the number that it has there."""

    def __init__(self, dialling: Dialling) -> None:
        self._dialling = dialling
        self.splicing = 0
        self._numbers: dict[int, int] = {}  # by the descriptor of the server, which may be another's later on
        self._at: dict[int, int] = {}  # and the other way round
        self._over: dict[int, Callable[[Any], object]] = {}
        self._cuts: dict[int, Callable[[], object]] = {}
        self._held: dict[int, ServerSocket] = {}
        self._gone: set[int] = set()  # cut before anybody could be told

    def __contains__(self, number: int) -> bool:
        return number in self._held

    def add(self, number: int, fd: int) -> ServerSocket:
        """One that the host has made."""
        server = ServerSocket(fileno=fd)
        server.let_go = partial(self.let_go, number)
        self._numbers[server.fileno()] = number
        self._at[number] = server.fileno()
        self._held[number] = server
        return server

    def number_of(self, server: socket.socket) -> int:
        return self._numbers[server.fileno()]

    def call_when_over(self, number: int, over: Callable[[Any], object]) -> None:
        """`over` is told whether it was reset, when the host, which now carries on with it, keeps it no longer."""
        self._over[number] = over

    def register(self, target: DialTarget, connected: socket.socket, cut: Callable[[], object]) -> int:
        """Raises ConnectionAbortedError for one that was cut already."""
        number = self._numbers[connected.fileno()]
        if number in self._gone:
            raise ConnectionAbortedError("its grant was lost")
        self._cuts[number] = cut
        return number

    def splice(self, number: int, hand_over: Callable[[], int]) -> int:
        self.splicing = number
        return hand_over()

    def unregister(self, number: int) -> None:
        """The connection is nobody's until it is registered again, or closed. Idempotent."""
        connected = self._held.get(number)
        if self._cuts.pop(number, None) is not None and connected is not None and connected.fileno() < 0:
            self.let_go(number)

    def let_go(self, number: int) -> None:
        """The host keeps a connection no longer. Idempotent."""
        if number in self._held and number not in self._cuts:
            self._forget(number)
            self._over.pop(number, None)
            self._dialling.owner(number).say(Verb.LET_GO, number)

    def has_ended(self, number: int, reset: bytes) -> None:
        """A connection that the host has carried on with, and keeps no longer."""
        self._forget(number)
        over = self._over.pop(number, None)
        if over is not None:
            over(reset)

    def _forget(self, number: int) -> None:
        del self._held[number]
        self._gone.discard(number)
        at = self._at.pop(number)
        if self._numbers.get(at) == number:
            del self._numbers[at]

    def was_cut(self, number: int) -> None:
        cut = self._cuts.get(number)
        if cut is not None:
            cut()
        else:
            self._gone.add(number)


class RemoteRelay:
    """The host's relay."""

    def __init__(self, connections: RemoteConnections, dialling: Dialling) -> None:
        self._connections, self._dialling = connections, dialling

    def splice(
        self, client: socket.socket, server: socket.socket, _: object, done: Callable[[object], None], *,
        hold: bool = False, said: bytes = b"", cage: int = 0,
    ) -> int:  # fmt: skip
        """Has the host carry on with a connection of its."""
        number = self._connections.splicing
        self._connections.call_when_over(number, done)
        first, rest = said[:LONGEST_SAID], said[LONGEST_SAID:]
        held = hold or bool(rest)
        try:
            self._dialling.owner(number).say(Verb.SPLICE, number, int(held), first, fds=(client.fileno(),))
        finally:
            client.close()
            server.close()
        if rest:
            self.say(number, rest)
            if not hold:
                self.release(number, b"")
        return number

    def say(self, number: int, said: bytes) -> None:
        for start in range(0, len(said), LONGEST_SAID):
            self._dialling.owner(number).say(Verb.SAY, number, said[start : start + LONGEST_SAID])

    def release(self, number: int, said: bytes) -> None:
        self.say(number, said)
        self._dialling.owner(number).say(Verb.RELEASE, number, b"")

    def cut(self, number: int) -> None:
        """Letting go of it has cut it."""


class RemoteInspector:
    def __init__(self, connections: RemoteConnections, host: HostEnd) -> None:
        self._connections, self._host = connections, host

    def open(
        self, held: HeldConnection, said: bytes, client: socket.socket, server: socket.socket, *, proxied: bool
    ) -> int:
        if len(said) > LONGEST_SAID:
            raise OSError("its first words are too long")
        number = self._connections.number_of(server)
        self._connections.call_when_over(number, lambda reset: held.over(reset == b"1"))
        self._host.say(Verb.INSPECT, number, int(held.secure), int(proxied), said, fds=(client.fileno(),))
        return number

    def cut(self, number: int) -> None:
        """Letting go of it has cut it."""


class RemoteSession:
    def __init__(
        self, number: int, rules: bytes, inspected: bool, host: HostEnd, dialling: Dialling, account: Account,
        calls: Account, repeats: RepeatDoors,
    ) -> None:  # fmt: skip
        """`calls`: what all cages may have under way at the host program."""
        self.loop = asyncio.get_running_loop()
        self.number, self.host, self._dialling, self._repeats = number, host, dialling, repeats
        self.net = ReadPlan(True if inspected else None)
        self.rules: GateRules = pickle.loads(rules)  # the host's own words
        self.ledger = RemoteLedger(number, host)
        self.turns = LoopTurns(self.loop)
        self.descriptors = account.share(full=partial(self.ledger.crowded, "descriptors"))
        self.calls = calls.share()
        self.monitors = Monitors(self.loop)
        self.connections = RemoteConnections(dialling)
        self.relay = RemoteRelay(self.connections, dialling)
        self.inspector = RemoteInspector(self.connections, host) if inspected else None
        self.secrets = 0
        self.ended = False
        self.answers = RemoteAnswers(self)
        self._tasks = CageTasks(self.loop)

    def narrow(self, rules: bytes) -> None:
        self.rules = pickle.loads(rules)  # the host's own words
        self._repeats.forget(self.number)

    def start(self, serving: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Runs a coroutine, at most for as long as the cage lives."""
        return self._tasks.start(serving)

    def end(self) -> None:
        self._tasks.cancel()

    # ---- connections --------------------------------------------------------------------------------------------

    async def dial(self, target: DialTarget) -> tuple[DialTarget, socket.socket]:
        """Raises Denied, Unreachable."""
        async with self.calls.one():
            answer = await self._dialling.dial(self.number, *target, lambda: write_peer(asking()))
        fields = [each.decode("utf-8", "replace") for each in answer.record.fields]
        if answer.fd is not None:
            return DialTarget(fields[1], int(fields[2])), self.connections.add(int(fields[0]), answer.fd)
        if answer.record.kind is Verb.REFUSED:
            raise Denied(DialTarget(fields[0], int(fields[1])), Decision(False, fields[2], fields[3]))
        failed = Unreachable(int(fields[0]), fields[1])
        failed.status, failed.code = int(fields[2]), fields[3]
        raise failed

    def known(self, asked: DialTarget) -> DialTarget | None:
        """What a target means to which a client may be passed on."""
        return self._dialling.known(self.number, *asked)

    def pass_on(self, asked: DialTarget, said: bytes, client: socket.socket) -> Passed:
        """Has a client of which this was read, and judged, relayed to a known target. The client stays the caller's.
        Raises OSError where it cannot be passed on."""
        return self._dialling.pass_on(self.number, asked, said, client)

    def offer(
        self, asked: DialTarget, answer: bytes, client: socket.socket, told: Callable[[bool, Fetched | None], None]
    ) -> Offered:
        """Has a client answered when a known target is connected. The client stays the caller's. Raises OSError as
        above."""
        return self._dialling.offer(self.number, asked, answer, client, partial(self._offered, told))

    def adopt(self, call: int, asked: DialTarget, told: Callable[[bool, Fetched | None], None]) -> Offered:
        """Goes on with what a client was offered when it said what was heard before."""
        return self._dialling.adopt(self.number, call, asked, partial(self._offered, told))

    def _offered(self, told: Callable[[bool, Fetched | None], None], received: Received | None) -> None:
        if received is None or received.fd is None:
            told(received is None or received.record.kind is Verb.OVER, None)
        else:
            number, name, port, _ = received.record.fields
            server = self.connections.add(int(number), received.fd)
            told(False, Fetched(DialTarget(name.decode(), int(port)), ClientStream(server, self.turns)))

    def learn_at(
        self, listener: socket.socket, each: int, go_on: Callable[[RepeatClient], object], *, redirected: bool
    ) -> RepeatDoor | None:
        """What is heard at a door. None where that cannot be had."""
        return self._repeats.open(self.number, self.descriptors, each, listener, go_on, redirected=redirected)

    # ---- what arrives nowhere -----------------------------------------------------------------------------------

    def note_refused(self, address: IPv4Address, port: int) -> None:
        self.host.say(Verb.NOTE_REFUSED, self.number, str(address), port)

    def note_lost(self, address: IPv4Address, port: int, replied_by: int | None) -> None:
        replied = NO_PORT if replied_by is None else replied_by
        self.host.say(Verb.NOTE_LOST, self.number, str(address), port, replied, write_peer(asking()))


class RemoteAnswers:
    """The answers of one cage's dns door: read here, found by the host."""

    def __init__(self, session: RemoteSession) -> None:
        self._session = session
        self._under_way = 0

    def begin(self, asked: bytes) -> Answering:
        """As `dns.door.Answers.begin`."""
        try:
            question = message.read_question(asked)
        except message.Malformed as malformed:
            return message.refusal(malformed)
        if self._under_way >= QUESTIONS_AT_ONCE:
            return None
        self._under_way += 1
        task = self._session.start(self._found(question, write_peer(asking())))
        task.add_done_callback(self._answered)
        return task

    def _answered(self, _: asyncio.Task[bytes]) -> None:
        self._under_way -= 1

    async def _found(self, question: message.Question, peer: bytes) -> bytes:
        flags = question.recursion | question.edns << 1
        labels = b"".join(bytes((len(each),)) + each for each in question.labels)
        async with self._session.calls.one():
            answer = await self._session.host.call(
                Verb.LOOKUP, self._session.number, question.number, flags, question.kind, question.raw, labels, peer
            )
        if answer.record.kind is not Verb.ANSWERED or not answer.record.fields[0]:
            raise HostGone("it has no answer")
        return answer.record.fields[0]
