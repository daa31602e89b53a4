"""Who dials for the reader: what is known there, the relay's thread of the host program; all else, the gatekeeper.

Each has a channel of its own, with the same records; the number of a connection tells which of them has it. The
gatekeeper says of a connection whether its target is known from then on.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from functools import partial

from pysandbox.gate.doors import Offered, Passed
from pysandbox.gate.reading.host_end import HostEnd, Received
from pysandbox.gate.reading.kinds import OF_DIALLER, Verb
from pysandbox.gate.tcp.target import DialTarget

MOST_UNANSWERED = 1000  # calls of the relay's thread, those of csrc/host/repeats too: it has room for few more answers
MOST_KNOWN = 4096
PATIENCE = 0.25  # seconds for an address to answer, until others are tried beside it

Known = tuple[int, str, int]  # a cage, what it asks for, and the port


class Dialling:
    def __init__(self, host: HostEnd, relay: HostEnd) -> None:
        self._host, self._relay = host, relay
        self._loop = asyncio.get_event_loop()
        self._known: dict[Known, DialTarget] = {}  # and what each means

    def owner(self, number: int) -> HostEnd:
        """Who has a connection."""
        return self._relay if number & OF_DIALLER else self._host

    async def dial(self, cage: int, host: str, port: int, peer: Callable[[], bytes]) -> Received:
        """The answer of who dials. `peer` tells who asks. Raises HostGone."""
        asked = cage, host, port
        if self.known(*asked) is not None:
            answer = await self._relay.call(Verb.DIAL, *asked, b"", patience=PATIENCE)
            if answer.record.kind is Verb.DIALLED:
                return answer
            self._known.pop(asked, None)
        answer = await self._host.call(Verb.DIAL, *asked, peer())
        if answer.record.kind is Verb.DIALLED and answer.record.fields[3] == b"1":
            if len(self._known) >= MOST_KNOWN:
                self._known.clear()
            self._known[asked] = DialTarget(answer.record.fields[1].decode(), int(answer.record.fields[2]))
        return answer

    def known(self, cage: int, host: str, port: int) -> DialTarget | None:
        """What a target means that is known to the relay's thread, as far as is known here."""
        return self._known.get((cage, host, port)) if self._relay.outstanding < MOST_UNANSWERED else None

    def pass_on(self, cage: int, asked: DialTarget, said: bytes, client: socket.socket) -> Passed:
        """Has a client relayed of which this was read, and judged; the client stays the caller's."""
        over: asyncio.Future[bool] = self._loop.create_future()

        def told(received: Received | None) -> None:
            late.cancel()
            if received is not None and received.record.kind is not Verb.OVER:
                self._known.pop((cage, *asked), None)
            if not over.done():
                over.set_result(received is None or received.record.kind is Verb.OVER)

        number = self._relay.ask(Verb.PASS, told, cage, *asked, said, fds=(client.fileno(),))
        late = self._loop.call_later(PATIENCE, self._relay.say, Verb.GIVE_UP, number)
        return Passed(over, partial(self._relay.say, Verb.LET_GO, number))

    def offer(
        self, cage: int, asked: DialTarget, answer: bytes, client: socket.socket,
        told: Callable[[Received | None], None],
    ) -> Offered:  # fmt: skip
        """Has a client answered when it is connected; the client stays the caller's."""
        number = self._relay.ask(Verb.OFFER, told, cage, *asked, answer, fds=(client.fileno(),))
        return self.adopt(cage, number, asked, told)

    def adopt(self, cage: int, number: int, asked: DialTarget, told: Callable[[Received | None], None]) -> Offered:
        """Goes on with what was offered by a call; `told` hears the answer."""

        def answered(received: Received | None) -> None:
            late.cancel()
            if received is not None and received.record.kind is Verb.FAILED:
                self._known.pop((cage, *asked), None)
            told(received)

        say = self._relay.say
        self._relay.expect(number, answered)
        late = self._loop.call_later(PATIENCE, say, Verb.GIVE_UP, number)
        return Offered(
            partial(say, Verb.GO, number), partial(say, Verb.FETCH, number), partial(say, Verb.LET_GO, number)
        )
