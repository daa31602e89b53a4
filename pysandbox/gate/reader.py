"""The host's side of the reader: the process that reads what cages say at their doors, one for each gatekeeper.

The gatekeeper keeps what decides: names, addresses, what is dialled, what is recorded and what is cut. The reader gets
the doors, and what strangers send there is parsed in it alone. What it asks for is held against the policy of the cage
that it names (`requests`), so a reader that was taken over gets what some cage of this Runtime may have anyway.

Its end closes the doors: the host keeps no copy of one that was handed over, and whoever had them is told so by a
refusal of its own. Cages that come later, or that have said nothing until then (`quiet`), have another one.
"""

from __future__ import annotations

import asyncio
import errno
import itertools
import os
import pickle
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial

from pysandbox._native import lib
from pysandbox.descriptors.sockets import socket_pair
from pysandbox.gate import confined
from pysandbox.gate.inspection import channel
from pysandbox.gate.inspection.channel import BadChannelRecord, ChannelRecord, LostDescriptors
from pysandbox.gate.outbox import Outbox
from pysandbox.gate.reading.kinds import FIELDS, FROM_READER, WITH_DESCRIPTOR, Verb
from pysandbox.gate.requests import Requests
from pysandbox.gate.threads import LOOP_PATIENCE, wait_for_loop
from pysandbox.shapes import TYPE_CHECKING

if TYPE_CHECKING:
    from pysandbox.gate.cage_session import CageSession
    from pysandbox.gate.confined import ConfinedProcess
    from pysandbox.gate.tcp.relay import SocketRelay

MODULE = "pysandbox.gate.reading.__main__"
SPEAK_FIRST = ("socks", "http")  # doors at which nobody is accepted before he has spoken, or has waited a second
READ_AT_ONCE = 16  # records in one round of the loop
SHUT_PATIENCE = 1.0  # seconds for it to close a door, once it is there
PATIENCE, ROUNDS = 10.0, 5  # seconds for it to answer, after which it is taken for stuck; in so many rounds (`pulse`)
START_PATIENCE = 20.0  # ... while it has not begun: a busy machine may take long to start an interpreter


class DoorReader:
    """Belongs to the gatekeeper's loop, but for `catch_up` and `tell_rules`."""

    def __init__(self, loop: asyncio.AbstractEventLoop, tell: Callable[[str], None], relay: SocketRelay) -> None:
        self._loop, self._tell, self._relay = loop, tell, relay
        relay.dialler_failed = partial(self.fail, "it says what makes no sense to the dialler, or nothing more")
        self._dials = -1  # the relay's end of the channel for what it dials by itself
        self._channel: socket.socket | None = None
        self.process: ConfinedProcess | None = None
        self._outbox: Outbox | None = None
        self._numbers = itertools.count(1)
        self._doors: dict[int, tuple[CageSession, asyncio.Future[None]]] = {}
        self._pings: dict[int, threading.Event] = {}
        self._requests = Requests(self)
        self._is_reading = self._is_there = False

    # ---- doors --------------------------------------------------------------------------------------------------

    async def serve(self, session: CageSession, kind: str, protocol: str, door: socket.socket) -> None:
        """Has a door served until this is cancelled, or it cannot be any more. Closes the host's copy. Raises
        OSError, ValueError."""
        self.introduce(session)
        number, over = next(self._numbers), self._loop.create_future()
        self._doors[number] = session, over
        try:
            with door:
                if kind in SPEAK_FIRST and door.family == socket.AF_INET:  # one wakeup less
                    door.setsockopt(socket.IPPROTO_TCP, socket.TCP_DEFER_ACCEPT, 1)
                self.say(Verb.DOOR, number, session.number, kind, protocol, fds=(door.fileno(),))
            await asyncio.shield(over)
        finally:
            await self._shut_down(number, over)
            del self._doors[number]
            if not any(each is session for each, _ in self._doors.values()):
                self._requests.forget(session)
                self.say(Verb.ENDED, session.number)

    async def _shut_down(self, number: int, over: asyncio.Future[None]) -> None:
        """Returns when the door is closed there as well, or the reader is late with it."""
        if not over.done():
            self.say(Verb.SHUT, number)
            await asyncio.wait({over}, timeout=SHUT_PATIENCE if self._is_there else START_PATIENCE)

    def introduce(self, session: CageSession) -> None:
        """Tells the process of a cage. Raises OSError, ValueError."""
        self.begin()
        if self._requests.introduce(session):
            session.reader = self
            inspected = session.net.inspection is not None
            try:
                self.say(Verb.CAGE, session.number, pickle.dumps(session.rules), int(inspected))
            except BaseException:  # rules that are too long for a record
                self._requests.forget(session)
                session.reader = None
                raise

    def tell_rules(self, session: CageSession) -> None:
        """The rules of a cage have become narrower. Any thread; nothing that leaves depends on the process's knowing
        it."""
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(lambda: self.say(Verb.RULES, session.number, pickle.dumps(session.rules)))

    def _lose_door(self, number: int, code: int, why: str) -> None:
        """The process never got the door: whoever has it is told, and so is what runs in the cage."""
        session, over = self._doors.get(number, (None, None))
        if session is not None and over is not None and not over.done():
            over.set_exception(OSError(code, why))
            if not session.ended:
                session.ledger.cut_off(why, is_one_door=True)

    def shut(self, number: int) -> None:
        """The process serves a door no longer."""
        known = self._doors.get(number)
        if known is not None and not known[1].done():
            known[1].set_result(None)

    # ---- what is known of it ------------------------------------------------------------------------------------

    def catch_up(self) -> None:
        """Returns when it has told all that has arrived until now; one that does not answer is ended. Any thread but
        the loop's."""
        asked, told = threading.Event(), threading.Event()
        with suppress(RuntimeError):
            # Behind doors that are on their way.
            self._loop.call_soon_threadsafe(self._loop.call_soon, self._ask, asked, told)
            patience = PATIENCE if self._is_there else START_PATIENCE
            if wait_for_loop(self._loop, asked.wait, patience) and self._is_silent(told, patience / ROUNDS):
                process = self.process
                if process is not None:
                    process.kill()

    def _is_silent(self, told: threading.Event, each: float) -> bool:
        """Whether it answers in none of ROUNDS, of so many seconds; the loop, which hears it, comes round in each: one
        that is late itself has asked nobody."""
        for _ in range(ROUNDS):
            turned = threading.Event()
            if told.wait(each):
                return False
            self._loop.call_soon_threadsafe(self._loop.call_soon, turned.set)
            if not wait_for_loop(self._loop, turned.wait, LOOP_PATIENCE):
                return False
        return not told.wait(each)

    def _ask(self, asked: threading.Event, told: threading.Event) -> None:
        asked.set()
        if self._channel is None:
            told.set()
            return
        number = next(self._numbers)
        self._pings[number] = told
        self.say(Verb.PING, number)

    def answered(self, number: int) -> None:
        told = self._pings.pop(number, None)
        if told is not None:
            told.set()

    # ---- the process --------------------------------------------------------------------------------------------

    def begin(self) -> None:
        """Starts it where there is none. Raises OSError."""
        if self._channel is not None:
            return
        pairs = [socket_pair() for _ in range(2)]
        try:
            self.process = confined.start(MODULE, tuple(far.fileno() for _, far in pairs))
        except BaseException:
            for near, _ in pairs:
                near.close()
            raise
        finally:
            for _, far in pairs:
                far.close()
        self._channel, dials = pairs[0][0], pairs[1][0].detach()
        self._outbox = Outbox(self._loop, self._channel, self._not_said, self.fail)
        try:
            self._hand_over(dials)
            self._watch()
        except BaseException:  # nobody would hear what it says, or that it ends
            self.stop()
            raise

    def _hand_over(self, dials: int) -> None:
        """The relay has this end from now on, and closes it. Raises OSError."""
        opened = self._relay.ask(lib.psb_dial_open, dials)
        if opened > 0:
            self._dials = dials
        elif opened < 0:
            raise OSError(-opened, os.strerror(-opened))
        else:  # it has ended
            os.close(dials)

    def stop(self) -> None:
        """In the loop, or when that has ended."""
        near, self._channel = self._channel, None
        self._drop_unsaid()
        self._is_reading = self._is_there = False
        self._relay.ask(lib.psb_dial_close)
        self._dials = -1
        if near is not None:
            for forget in (self._loop.remove_reader, self._loop.remove_writer):
                with suppress(OSError):
                    forget(near.fileno())
            near.close()
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process.words.close()
        for told in self._pings.values():
            told.set()
        self._pings.clear()
        self._requests.end()
        for _, over in self._doors.values():
            if not over.done():
                over.set_result(None)

    def fail(self, why: str) -> None:
        """The process has ended, or is to."""
        if self._channel is not None:
            served = {session for session, _ in self._doors.values() if not session.ended}
            words = self.process.words.said() if self.process is not None else ""
            self.stop()
            for session in served:
                session.ledger.cut_off(why)
            self._tell(f"the reader of the doors: {why}{words}")

    def after_fork_in_child(self) -> None:
        near, self._channel = self._channel, None
        if near is not None:
            os.close(near.detach())
        if self._dials >= 0:
            os.close(self._dials)
        if self.process is not None:
            self.process.words.close()
        self._drop_unsaid()

    def _drop_unsaid(self) -> None:
        outbox, self._outbox = self._outbox, None
        if outbox is not None:
            outbox.close()

    # ---- the channel --------------------------------------------------------------------------------------------

    def say(self, kind: Verb, number: int, *fields: str | int | bytes, fds: tuple[int, ...] = ()) -> None:
        """In the loop; does not wait. The descriptors stay the caller's. Raises OSError where they cannot be
        duplicated."""
        if self._outbox is not None:
            said = tuple(each if isinstance(each, bytes) else str(each).encode("utf-8", "replace") for each in fields)
            self._outbox.say(ChannelRecord(kind, number, said), fds)

    def _not_said(self, record: ChannelRecord) -> None:
        """Descriptors could not be passed on to it: what they were for comes to nothing."""
        if record.kind is Verb.DOOR:
            self._lose_door(record.number, errno.ETOOMANYREFS, "too many descriptors of this user's are on their way")
        elif record.kind is Verb.DIALLED:
            self._requests.not_told(record.number, int(record.fields[0]))

    def read_on(self) -> None:
        near = self._channel
        try:
            self._watch()
        except OSError as error:
            why = str(error)
            self._loop.call_soon(lambda: self.fail(why) if self._channel is near else None)

    def _watch(self) -> None:
        """Raises OSError."""
        if self._channel is not None and not self._is_reading:
            self._loop.add_reader(self._channel.fileno(), self._read)
            self._is_reading = True

    def _read(self) -> None:
        for _ in range(READ_AT_ONCE):
            near = self._channel
            if near is None:
                return
            try:
                if self._requests.are_many:  # what waits is read when some are done
                    self._is_reading = False
                    self._loop.remove_reader(near.fileno())
                    return
                received = channel.receive(near, FIELDS)
                if received is None:
                    self.fail("it has ended")
                    return
                self._take(*received)
            except BlockingIOError:
                return
            except LostDescriptors as lost:
                self._take_without(lost.record)
            except (BadChannelRecord, ValueError) as error:
                self.fail(f"it says what makes no sense: {error}")
                return
            except OSError as error:
                self.fail(f"it is not heard any more: {error}")
                return

    def _take_without(self, record: ChannelRecord) -> None:
        """What was said with a client that no descriptor was left for: that client is refused."""
        if record.kind in (Verb.SPLICE, Verb.INSPECT):
            self._requests.lose(record.number)
        else:
            self.fail("it says what makes no sense: descriptors that belong to nothing")

    def _take(self, record: ChannelRecord, fds: list[int]) -> None:
        """Raises BadChannelRecord, ValueError, OSError."""
        kind = Verb(record.kind)
        if kind not in FROM_READER or len(fds) != int(kind in WITH_DESCRIPTOR):
            _close(fds)
            raise BadChannelRecord("a record that is not the reader's to send")
        if kind is Verb.PONG:
            self._loop.call_soon(self._loop.call_soon, self.answered, record.number)  # what it told before has begun
        elif kind is Verb.SHUT:
            self.shut(record.number)
        elif kind is Verb.UNOPENED:
            self._lose_door(record.number, errno.EMFILE, "it had no descriptor left for it")
        elif kind is Verb.READY:
            self._is_there = True
        else:
            self._requests.take(kind, record, fds[0] if fds else None)


def _close(fds: list[int]) -> None:
    for fd in fds:
        os.close(fd)
