"""The reader at work: cages and doors that the host program gives it, each door served until it is shut."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Coroutine

from pysandbox.gate.dns import door as dns
from pysandbox.gate.reading.dialling import Dialling
from pysandbox.gate.reading.host_end import HostEnd, Received
from pysandbox.gate.reading.kinds import Verb
from pysandbox.gate.reading.repeats import RepeatDoors, RepeatSelector
from pysandbox.gate.reading.session import RemoteSession
from pysandbox.gate.shares import Account, descriptors
from pysandbox.gate.tcp import refused, streams
from pysandbox.gate.udp import lost
from pysandbox.shapes import Any

CALLS_AT_ONCE = 1536  # of all cages: fewer than the host program takes, which reads none of any cage beyond (requests)
ROUNDS = 5  # of the loop, in which a door that was opened begins to be served, and tells what waits there


class Reader:
    def __init__(
        self, channel: socket.socket, dials: socket.socket, loop: asyncio.AbstractEventLoop, selector: RepeatSelector
    ) -> None:
        self._host = HostEnd(channel, loop, self._obey)
        self._relay = HostEnd(dials, loop, self._obey)
        self._dialling = Dialling(self._host, self._relay)
        self._repeats = RepeatDoors(selector, self._relay, loop)
        room = descriptors()  # nobody can ask later
        self._account, self._calls = Account(lambda: room), Account(lambda: CALLS_AT_ONCE)
        self._cages: dict[int, RemoteSession] = {}
        self._doors: dict[int, asyncio.Task[None]] = {}
        self._work: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        """Until the host program ends, or says what makes no sense."""
        self._host.say(Verb.READY, 0)
        await asyncio.wait((self._host.gone, self._relay.gone), return_when=asyncio.FIRST_COMPLETED)

    def _obey(self, received: Received) -> None:
        (kind, number, fields), fd = received
        if kind is Verb.CAGE:
            self._cages[number] = RemoteSession(
                number, fields[0], fields[1] == b"1", self._host, self._dialling, self._account, self._calls,
                self._repeats,
            )  # fmt: skip
        elif kind is Verb.DOOR and fd is not None:
            self._open(number, int(fields[0]), fields[1].decode(), fields[2].decode(), fd)
        elif kind is Verb.SHUT and number in self._doors:
            self._begin(self._shut(number))
        elif kind is Verb.RULES and number in self._cages:
            self._cages[number].narrow(fields[0])
        elif kind is Verb.ENDED and number in self._cages:
            self._cages.pop(number).end()
        elif kind is Verb.PING:
            self._begin(self._catch_up(number))
        elif kind in (Verb.OVER, Verb.CUT):
            self._ended(kind is Verb.CUT, number, fields)

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        self._work.add(task := asyncio.ensure_future(work))
        task.add_done_callback(self._work.discard)

    async def _shut(self, number: int) -> None:
        """Ends the serving of a door, which tells what has arrived there: of one that came just before, too, since
        a cage may have ended before this process was there."""
        await _doors_begin()
        if number in self._doors:
            self._doors[number].cancel()

    async def _catch_up(self, number: int) -> None:
        """Answers when all that has arrived until now was told, also at doors that came just before."""
        await _doors_begin()
        for each in self._cages.values():
            each.monitors.record_all()
        self._host.say(Verb.PONG, number)

    def _ended(self, cut: bool, number: int, fields: tuple[bytes, ...]) -> None:
        """A connection that the host has carried on with, or one that it has cut."""
        for each in (session.connections for session in self._cages.values()):
            if number in each:
                if cut:
                    each.was_cut(number)
                else:
                    each.has_ended(number, fields[0])

    # ---- doors --------------------------------------------------------------------------------------------------

    def _open(self, number: int, cage: int, kind: str, protocol: str, fd: int) -> None:
        session = self._cages.get(cage)
        if session is None:
            os.close(fd)
            self._host.say(Verb.SHUT, number)
            return
        door = socket.socket(fileno=fd)
        task = self._doors[number] = session.start(served(session, kind, protocol, door))
        task.add_done_callback(lambda _: self._closed(number, door))

    def _closed(self, number: int, door: socket.socket) -> None:
        """A door that cannot be served is closed, so that the kernel refuses connections to it. A done callback,
        because it runs even for a task that was cancelled before it began."""
        door.close()
        del self._doors[number]
        self._host.say(Verb.SHUT, number)


async def _doors_begin() -> None:
    for _ in range(ROUNDS):
        await asyncio.sleep(0)


async def served(session: Any, kind: str, protocol: str, door: socket.socket) -> None:
    if kind == "dns":
        await (dns.serve_udp if protocol == "udp" else dns.serve_tcp)(session, door, session.answers)
    elif kind in ("lost", "refused"):
        await (lost if kind == "lost" else refused).serve(session, door)
    else:
        await streams.serve(session, kind, door)
