"""The reader's end of the channel: what it says, what it asks for, and what it waits for.

What it says waits until the host program takes it: one that does not keeps the doors from being served, and nothing
else. A call is answered when the host has decided; `book` waits for that without giving way, because a refusal has to
be recorded while whoever was refused is still there to be looked at.
"""

from __future__ import annotations

import asyncio
import errno
import itertools
import os
import select
import socket
import time
from collections import deque
from collections.abc import Callable

from pysandbox.gate.inspection import channel
from pysandbox.gate.inspection.channel import ChannelRecord
from pysandbox.gate.reading.kinds import FIELDS, WITH_DESCRIPTOR, Verb
from pysandbox.shapes import NamedTuple

READ_AT_ONCE = 32  # records
BOOKED_MS = 2000  # for the host program to look who has been refused
ELSEWHERE = 1  # the first two bits of the number of a call that was not made here (csrc/host/repeats)
# What answers a call. Any other record has the number of a door, a cage or a connection, which a call may have as well.
ANSWERS = frozenset((Verb.DIALLED, Verb.REFUSED, Verb.FAILED, Verb.ANSWERED, Verb.BOOKED))
ENDS = ANSWERS | {Verb.OVER}  # ... or a call that nobody waits for, which the relay's thread alone is asked


class HostGone(OSError):
    """The host program has ended, or says what makes no sense."""


class Received(NamedTuple):
    record: ChannelRecord
    fd: int | None


Told = Callable[["Received | None"], object]  # an answer; None: nobody will answer
Call = tuple[int, "asyncio.Future[Received]"]  # its number, its answer


class HostEnd:
    def __init__(self, sock: socket.socket, loop: asyncio.AbstractEventLoop, obey: Callable[[Received], None]) -> None:
        self._sock, self._loop, self._obey = sock, loop, obey
        self._numbers = itertools.count(1)
        self._calls: dict[int, asyncio.Future[Received]] = {}
        self._told: dict[int, Told] = {}  # of calls that nobody waits for
        self.unanswered = 0  # calls, also of those who do not wait any more
        self.elsewhere: Callable[[], int] = lambda: 0  # calls on this channel that were not made here
        self._later: deque[Received] = deque()  # what came while a refusal was booked
        self.stray: Callable[[Received], bool] = lambda _: False  # takes an answer to what was not asked here
        self.gone: asyncio.Future[None] = loop.create_future()
        loop.add_reader(sock.fileno(), self._read)

    def say(self, kind: Verb, number: int, *fields: str | int | bytes, fds: tuple[int, ...] = ()) -> None:
        """Raises OSError where a descriptor cannot be passed on for now: too many of this user's are on their way."""
        said = tuple(each if isinstance(each, bytes) else str(each).encode("utf-8", "replace") for each in fields)
        record = ChannelRecord(kind, number, said)
        patience = 0.0  # it has room almost always
        while True:
            try:
                channel.send(self._sock, record, fds, patience=patience)
                return
            except BlockingIOError:
                patience = 3600.0
            except OSError as error:
                if error.errno not in channel.SHORTAGE:
                    self._end()
                    return
                if fds and error.errno == errno.ETOOMANYREFS:
                    raise
                time.sleep(channel.AGAIN)

    def begin(self, kind: Verb, *fields: str | int | bytes, fds: tuple[int, ...] = ()) -> Call:
        """Asks. The answer is HostGone where nobody will answer."""
        number = next(self._numbers)
        answer = self._calls[number] = self._loop.create_future()
        self.unanswered += 1
        self.say(kind, number, *fields, fds=fds)
        return number, answer

    def ask(self, kind: Verb, told: Told, *fields: str | int | bytes, fds: tuple[int, ...] = ()) -> int:
        """Asks; `told` hears the answer. The number of the call."""
        number = next(self._numbers)
        self.say(kind, number, *fields, fds=fds)
        self.expect(number, told)
        return number

    def expect(self, number: int, told: Told) -> None:
        """`told` hears the answer to a call, whoever has made it."""
        self.unanswered += number not in self._told
        self._told[number] = told

    @property
    def outstanding(self) -> int:
        """Calls that the other end may still have to answer, whoever has made them."""
        return self.unanswered + self.elsewhere()

    def fileno(self) -> int:
        return self._sock.fileno()

    async def call(self, kind: Verb, *fields: str | int | bytes, patience: float = 0.0) -> Received:
        """Asks, and waits for the answer; gives up after so many seconds, which is answered as well. Raises
        HostGone."""
        number, answer = self.begin(kind, *fields)
        late = self._loop.call_later(patience, self.say, Verb.GIVE_UP, number) if patience else None
        try:
            received: Received = await answer
            return received
        except asyncio.CancelledError:
            if answer.done() and not answer.cancelled() and answer.exception() is None:
                self._drop(answer.result())
            else:
                self.say(Verb.GIVE_UP, number)
            raise
        finally:
            self._calls.pop(number, None)
            if late is not None:
                late.cancel()

    def book(self, *fields: str | int | bytes) -> None:
        """Has a refusal recorded, and returns when it is."""
        number = next(self._numbers)
        self.say(Verb.DENIED, number, *fields)
        poll = select.poll()
        poll.register(self._sock, select.POLLIN)
        while not self.gone.done() and poll.poll(BOOKED_MS):
            received = self._receive()
            if received is None:
                continue
            if received.record.kind is Verb.BOOKED and received.record.number == number:
                break
            self._later.append(received)
        if self._later:
            self._loop.call_soon(self._take_later)

    def note(self, *fields: str | int | bytes) -> None:
        """Has a refusal recorded, in time."""
        self.say(Verb.DENIED, next(self._numbers), *fields)

    # ---- what the host says -------------------------------------------------------------------------------------

    def _read(self) -> None:
        self._take_later()
        for _ in range(READ_AT_ONCE):
            received = self._receive()
            if received is None:
                return
            self._take(received)

    def _take_later(self) -> None:
        while self._later:
            self._take(self._later.popleft())

    def _receive(self) -> Received | None:
        """The next record; None where there is none, or will be none any more."""
        try:
            received = channel.receive(self._sock, FIELDS)
        except BlockingIOError:
            return None
        except channel.LostDescriptors as lost:
            return self._without(lost.record)
        except (channel.BadChannelRecord, OSError):
            received = None
        if received is None:
            self._end()
            return None
        record, fds = received
        if len(fds) != int(record.kind in WITH_DESCRIPTOR):
            for fd in fds:
                os.close(fd)
            self._end()
            return None
        return Received(record, fds[0] if fds else None)

    def _without(self, record: ChannelRecord) -> Received | None:
        """What is left of a record where no descriptor could be opened for it: a call that has failed, no door."""
        if record.kind is Verb.DOOR:
            self.say(Verb.UNOPENED, record.number)
            return None
        if record.kind is not Verb.DIALLED:
            self._end()
            return None
        self.say(Verb.LET_GO, int(record.fields[0]))
        why = str(errno.EMFILE).encode(), os.strerror(errno.EMFILE).encode(), b"0", b""
        return Received(ChannelRecord(Verb.FAILED, record.number, why), None)

    def _take(self, received: Received) -> None:
        record = received.record
        if record.number not in self._told and record.number >> 62 == ELSEWHERE and self.stray(received):
            return
        told = self._told.pop(record.number, None) if record.kind in ENDS else None
        if told is not None:
            self.unanswered -= 1
            told(received)
            return
        if record.kind not in ANSWERS:
            self._obey(received)
            return
        if record.number >> 62 == ELSEWHERE:
            self._drop(received)
            return
        self.unanswered -= record.kind is not Verb.BOOKED
        answer = self._calls.pop(record.number, None)
        if answer is not None and not answer.done():
            answer.set_result(received)
        else:
            self._drop(received)

    def _drop(self, received: Received) -> None:
        """An answer that nobody waits for any more."""
        if received.fd is not None:
            os.close(received.fd)
        if received.record.kind is Verb.DIALLED:
            self.say(Verb.LET_GO, int(received.record.fields[0]))

    def _end(self) -> None:
        if not self.gone.done():
            self._loop.remove_reader(self._sock.fileno())
            self.gone.set_result(None)
        for answer in self._calls.values():
            if not answer.done():
                answer.set_exception(HostGone())
        while self._told:
            self._told.popitem()[1](None)
