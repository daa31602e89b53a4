"""What the reader asks for, and what it is given: by the policy of the cage that it names, whatever it says.

A connection is dialled, held and cut here. The reader has a duplicate while it judges what the client says first, and
hands the client over then; of a server with a contract it has none, but a socket that becomes readable when the server
speaks. What it says makes sense or it is ended (`ValueError`).
"""

from __future__ import annotations

import asyncio
import errno
import itertools
import os
import re
import socket
from collections.abc import Callable, Coroutine
from contextlib import suppress
from functools import partial
from ipaddress import IPv4Address

from pysandbox.descriptors.sockets import socket_pair
from pysandbox.gate.askers import DoorClient, serve_for, served
from pysandbox.gate.dns import door as dns
from pysandbox.gate.dns.message import LONGEST_NAME, Question
from pysandbox.gate.inspection.channel import ChannelRecord
from pysandbox.gate.judging import judge
from pysandbox.gate.ledger import REFUSED
from pysandbox.gate.published.ports import refuse
from pysandbox.gate.reading.kinds import LONGEST_SAID, NO_PORT, Verb, labels_of, number, read_peer
from pysandbox.gate.rules import Decision
from pysandbox.gate.tcp import refused
from pysandbox.gate.tcp.dial import dial
from pysandbox.gate.tcp.stream import ClientStream, until_readable
from pysandbox.gate.tcp.target import Denied, DialTarget, Unreachable, target_of
from pysandbox.gate.udp import lost
from pysandbox.shapes import TYPE_CHECKING, Any, Protocol, dataclass

if TYPE_CHECKING:
    from pysandbox.compile.plan import Contract
    from pysandbox.gate.cage_session import CageSession

EACH = 2  # descriptors of one connection: the client's and the server's
MOST_CALLS = 2048  # that are under way; what is more waits in the channel
LARGEST = (1 << 64) - 1
ODD = re.compile(r"[^\x20-\x7e]")


class RecordSender(Protocol):
    """The channel to the reader."""

    def say(self, kind: Verb, number: int, *fields: str | int | bytes, fds: tuple[int, ...] = ()) -> None:
        """Does not wait. Raises OSError where a descriptor cannot be duplicated."""

    def read_on(self) -> None:
        """There is room for more of its calls."""


@dataclass(slots=True, eq=False)
class Carried:
    """A connection that was dialled for the reader, until it lets go of it."""

    session: CageSession
    target: DialTarget
    server: socket.socket
    peer: DoorClient | None
    contract: Contract | None
    registered: int = 0
    pair: int = 0  # of the relay
    is_over: bool = False
    watching: asyncio.Task[None] | None = None  # a server with a contract, until it speaks
    inspecting: asyncio.Task[None] | None = None


class Requests:
    """Belongs to the gatekeeper's loop."""

    def __init__(self, reader: RecordSender) -> None:
        self._reader = reader
        self._sessions: dict[int, tuple[CageSession, dns.Answers]] = {}
        self._carried: dict[int, Carried] = {}
        self._calls: dict[int, asyncio.Task[None]] = {}
        self._numbers = itertools.count(1)

    def introduce(self, session: CageSession) -> bool:
        """Whether it was unknown."""
        if session.number in self._sessions:
            return False
        self._sessions[session.number] = session, dns.Answers(session)
        return True

    def forget(self, session: CageSession) -> None:
        """The reader has no door of it any more."""
        self._sessions.pop(session.number, None)
        session.judged.leave()
        for each in [key for key, carried in self._carried.items() if carried.session is session]:
            self._let_go(each)

    def end(self) -> None:
        for task in list(self._calls.values()):
            task.cancel()
        for session, _ in list(self._sessions.values()):
            self.forget(session)

    @property
    def are_many(self) -> bool:
        return len(self._calls) >= MOST_CALLS

    def take(self, kind: Verb, record: ChannelRecord, fd: int | None) -> None:
        """Raises ValueError for what makes no sense."""
        client = None if fd is None else _socket(fd)
        try:
            if kind in CALLS:
                CALLS[kind](self, record.number, record.fields)
            elif kind in OF_CAGE:
                known = self._sessions.get(record.number)
                if known is not None:  # it has not heard yet that the cage has ended
                    OF_CAGE[kind](self, known[0], record.fields)
            elif kind is Verb.GIVE_UP:
                if (task := self._calls.get(record.number)) is not None:
                    task.get_loop().call_soon(task.cancel)  # once it has begun: what it refuses at once is recorded
            elif kind is Verb.LET_GO:
                self._let_go(record.number)
            else:
                self._about(kind, record, client)
        except BaseException:
            if client is not None:
                client.close()
            raise

    # ---- calls --------------------------------------------------------------------------------------------------

    def _session(self, said: bytes) -> tuple[CageSession, dns.Answers] | None:
        """None where it has ended."""
        return self._sessions.get(number(said, LARGEST))

    def _start(self, call: int, session: CageSession, work: Coroutine[Any, Any, None]) -> None:
        if call in self._calls:
            work.close()
            raise ValueError("the number of a call that is under way")
        task = self._calls[call] = session.start(work)
        task.add_done_callback(partial(self._done, call))

    def _done(self, call: int, task: asyncio.Task[None]) -> None:
        """A done callback, because it runs even for a task that was cancelled before it began."""
        del self._calls[call]
        if not task.cancelled() and (error := task.exception()) is not None:
            self._fail(call, Unreachable(errno.EIO, type(error).__name__))
        elif task.cancelled():
            self._fail(call, Unreachable(errno.ECANCELED, "the cage has ended"))
        self._reader.read_on()

    def _fail(self, call: int, error: Unreachable) -> None:
        number, why = error.errno or errno.EHOSTUNREACH, str(error.strerror or error)
        self._reader.say(Verb.FAILED, call, number, why, error.status, error.code)

    def dial(self, call: int, fields: tuple[bytes, ...]) -> None:
        known, peer = self._session(fields[0]), read_peer(fields[3])
        target = DialTarget(fields[1].decode("ascii", "replace")[:300], number(fields[2]))
        if known is None:
            self._fail(call, Unreachable(errno.ECONNABORTED, "the cage has ended"))
        else:
            self._start(call, known[0], self._dial(call, known[0], target, peer))

    async def _dial(self, call: int, session: CageSession, target: DialTarget, peer: DoorClient | None) -> None:
        serve_for(lambda: peer)
        await session.turns.take()
        await session.descriptors.room(EACH)
        rules = session.rules
        try:
            server = await dial(session, target)
            found = target_of(session, *target)
            self._hold(call, session, found, server, peer, judge(session, target, found, server, rules))
        except Denied as denied:
            session.descriptors.give(EACH)
            self._reader.say(Verb.REFUSED, call, *denied.target, denied.decision.rule, denied.decision.fix)
        except Unreachable as error:
            session.descriptors.give(EACH)
            self._fail(call, error)
        except BaseException:
            session.descriptors.give(EACH)
            raise

    def _hold(
        self, call: int, session: CageSession, target: DialTarget, server: socket.socket, peer: DoorClient | None,
        judged: bool,
    ) -> None:  # fmt: skip
        """Takes over the connection. Raises Denied, OSError."""
        key = next(self._numbers)
        try:
            registered = session.connections.register(target, server, partial(self._reader.say, Verb.CUT, key))
        except BaseException:
            server.close()
            raise
        contract = session.rules.contract(*target) if session.net.inspection is not None else None
        carried = Carried(session, target, server, peer, contract, registered)
        try:
            if contract is None:
                self._reader.say(Verb.DIALLED, call, key, *target, int(judged), fds=(server.fileno(),))
            else:
                near, far = socket_pair(socket.SOCK_STREAM)
                carried.watching = session.start(_until_it_speaks(server, near))
                carried.watching.add_done_callback(lambda _: near.close())
                with far:
                    self._reader.say(Verb.DIALLED, call, key, *target, 0, fds=(far.fileno(),))
        except BaseException:
            session.connections.unregister(registered)
            _close_when_unused(carried)
            raise
        self._carried[key] = carried

    def not_told(self, call: int, key: int) -> None:
        """A connection could not be handed to the reader, which has asked for it by this call."""
        self._let_go(key)
        self._fail(call, Unreachable(errno.ETOOMANYREFS, os.strerror(errno.ETOOMANYREFS)))

    def look_up(self, call: int, fields: tuple[bytes, ...]) -> None:
        known, peer = self._session(fields[0]), read_peer(fields[6])
        flags, raw = number(fields[2], 3), fields[4]
        if len(raw) > LONGEST_NAME + 4:
            raise ValueError("a question that is too long")
        question = Question(
            number(fields[1]), bool(flags & 1), labels_of(fields[5]), number(fields[3]), raw, bool(flags & 2)
        )
        if known is None:
            self._reader.say(Verb.ANSWERED, call, b"")
        else:
            self._start(call, known[0], self._look_up(call, known[0], known[1], question, peer))

    async def _look_up(
        self, call: int, session: CageSession, answers: dns.Answers, question: Question, peer: DoorClient | None
    ) -> None:
        serve_for(lambda: peer)
        await session.turns.take()
        answer = answers.answer(question)
        self._reader.say(
            Verb.ANSWERED, call, (answer if isinstance(answer, bytes) else await answer) if answer else b""
        )

    def denied(self, call: int, fields: tuple[bytes, ...]) -> None:
        """Records what the reader has refused. Its words are a stranger's: no fix is taken from them."""
        known, kind, peer = self._session(fields[0]), fields[1].decode("ascii"), read_peer(fields[5])
        port = number(fields[3])
        if kind not in REFUSED:
            raise ValueError("no kind of refusal")
        if known is not None:
            with served(peer):
                decision = Decision(False, _text(fields[4]), "")
                known[0].ledger.denied(kind, _text(fields[2]), None if port == NO_PORT else port, decision)
        self._reader.say(Verb.BOOKED, call)

    # ---- about a cage -------------------------------------------------------------------------------------------

    def note_refused(self, session: CageSession, fields: tuple[bytes, ...]) -> None:
        refused.tell(session, IPv4Address(fields[0].decode("ascii")), number(fields[1]))

    def note_lost(self, session: CageSession, fields: tuple[bytes, ...]) -> None:
        peer, replied_by = read_peer(fields[3]), number(fields[2])
        with served(peer):
            lost.tell(
                session,
                IPv4Address(fields[0].decode("ascii")),
                number(fields[1]),
                None if replied_by == NO_PORT else replied_by,
            )

    def crowded(self, session: CageSession, fields: tuple[bytes, ...]) -> None:
        if fields[0] != b"descriptors":
            raise ValueError("nothing that a cage has a share of")
        session.ledger.crowded("descriptors", number(fields[1], LARGEST))

    # ---- about a connection -------------------------------------------------------------------------------------

    def _about(self, kind: Verb, record: ChannelRecord, client: socket.socket | None) -> None:
        carried, said = self._carried.get(record.number), record.fields[-1]
        if len(said) > LONGEST_SAID:
            raise ValueError("too much at once")
        if carried is None:  # it was cut meanwhile, with its cage
            if client is not None:
                refuse(client)
        elif client is None:
            if not carried.pair:
                raise ValueError("a connection that is not relayed")
            (carried.session.relay.say if kind is Verb.SAY else carried.session.relay.release)(carried.pair, said)
        elif carried.pair or carried.inspecting is not None or (carried.contract is None) != (kind is Verb.SPLICE):
            raise ValueError("a connection that is not the reader's to hand over so")
        elif kind is Verb.SPLICE:
            self._splice(record.number, carried, client, record.fields[0] == b"1", said)
        else:
            secure, proxied = record.fields[0] == b"1", record.fields[1] == b"1"
            carried.inspecting = carried.session.start(
                self._inspect(record.number, carried, client, said, secure, proxied)
            )
            carried.inspecting.add_done_callback(lambda _: client.close())

    def _splice(self, key: int, carried: Carried, client: socket.socket, hold: bool, said: bytes) -> None:
        session = carried.session

        def hand_over() -> int:
            return session.relay.splice(
                client, carried.server, carried.target, over, hold=hold, said=said, cage=session.number
            )

        def over(_: object) -> None:
            self._over(key, carried)

        try:
            carried.pair = session.connections.splice(carried.registered, hand_over)
        except OSError:  # it was cut, or the relay has ended
            refuse(client)
            over(None)

    def lose(self, key: int) -> None:
        """The client of a connection has got lost on its way here: it was closed with that, and its server is now."""
        carried = self._carried.get(key)
        if carried is not None and not carried.pair and carried.inspecting is None:
            self._over(key, carried)

    async def _inspect(
        self, key: int, carried: Carried, client: socket.socket, said: bytes, secure: bool, proxied: bool
    ) -> None:
        from pysandbox.gate.tcp.inspected import Inspected

        session = carried.session
        assert carried.contract is not None
        serve_for(lambda: carried.peer)
        if carried.watching is not None:
            carried.watching.cancel()
            await asyncio.wait({carried.watching})
        inspected = Inspected(
            session, carried.target, carried.contract, ClientStream(client, session.turns),
            ClientStream(carried.server, session.turns),
        )  # fmt: skip
        try:
            await inspected.serve(said, secure=secure, proxied=proxied)
        finally:
            inspected.end()
        carried.inspecting = None
        self._over(key, carried)

    def _over(self, key: int, carried: Carried) -> None:
        """A connection that was handed over has ended: there is nothing for the reader to let go of."""
        carried.is_over = True
        self._reader.say(Verb.OVER, key, 0)
        self._let_go(key)

    def _let_go(self, key: int) -> None:
        carried = self._carried.pop(key, None)
        if carried is None:
            return
        carried.session.connections.unregister(carried.registered)
        if carried.pair and not carried.is_over:
            carried.session.relay.cut(carried.pair)
        elif carried.contract is None and not carried.pair:  # the reader has a duplicate, which nobody finds any more
            with suppress(OSError):
                carried.server.shutdown(socket.SHUT_RDWR)
        _close_when_unused(carried)
        carried.session.descriptors.give(EACH)


def _socket(fd: int) -> socket.socket:
    """Raises ValueError, and closes it, where it is none of TCP or of this host's."""
    try:
        made = socket.socket(fileno=fd)
    except OSError:
        os.close(fd)
        raise ValueError("a descriptor that is no socket") from None
    if made.type != socket.SOCK_STREAM or made.family not in (socket.AF_INET, socket.AF_INET6, socket.AF_UNIX):
        made.close()
        raise ValueError("a socket that is no stream")
    return made


def _close_when_unused(carried: Carried) -> None:
    """Closes the server; where a task waits for it, when that has gone: its descriptor may be another's by then."""
    task = carried.inspecting or carried.watching
    if task is None or task.done():
        carried.server.close()
    else:
        task.add_done_callback(lambda _: carried.server.close())
        task.cancel()


async def _until_it_speaks(server: socket.socket, near: socket.socket) -> None:
    """Tells the other end of `near`, by closing it."""
    await until_readable(server)


def _text(said: bytes) -> str:
    return ODD.sub("?", said.decode("utf-8", "replace"))[:300]


CALLS: dict[Verb, Callable[[Requests, int, tuple[bytes, ...]], None]] = {
    Verb.DIAL: Requests.dial, Verb.LOOKUP: Requests.look_up, Verb.DENIED: Requests.denied,
}  # fmt: skip
OF_CAGE: dict[Verb, Callable[[Requests, CageSession, tuple[bytes, ...]], None]] = {
    Verb.NOTE_REFUSED: Requests.note_refused, Verb.NOTE_LOST: Requests.note_lost, Verb.CROWDED: Requests.crowded,
}  # fmt: skip
