"""Questions to the host program, for whose answers this process waits: so it serves cages alone that have a callback.

Meanwhile it keeps every record for later, in the order in which they came, but the answer, and PING, which is answered
at once: that says that it is there, and that no secret is used any more whose REVOKE came before. So such a one is
revoked at once; of all else that came before, a PONG says nothing while a question waits.
"""

from __future__ import annotations

import select
import socket
import time
from collections import deque
from collections.abc import Callable
from itertools import count

from pysandbox.gate.inspection import channel
from pysandbox.gate.inspection.channel import ChannelRecord, Kind, LostDescriptors
from pysandbox.shapes import Protocol

LATE, GONE = "it took too long", "the host program is gone"
PIECE, AGAIN = 1 << 16, 1 << 12  # bytes of a question; those of the one before that it has too

Received = tuple[ChannelRecord, list[int]] | None


class Say(Protocol):
    def __call__(self, kind: Kind, number: int, *fields: str | bytes) -> None: ...


class Questions:
    """`kept`: called when a record was kept for later; `revoke`: takes a REVOKE, and the connection that asks."""

    def __init__(
        self, host: socket.socket, say: Say, kept: Callable[[], object], revoke: Callable[[ChannelRecord, int], None]
    ) -> None:
        self._host, self._say, self._kept, self._revoke = host, say, kept, revoke
        self._later: deque[Received | LostDescriptors] = deque()
        self._numbers = count(1)

    def receive(self) -> Received:
        """The next record; None at the end. Raises BlockingIOError, BadChannelRecord, OSError; LostDescriptors for one
        that lost them, also where it was kept."""
        received = self._later.popleft() if self._later else channel.receive(self._host)
        if isinstance(received, LostDescriptors):
            raise received
        return received

    def refused(self, connection: int, seconds: float, place: str, offset: int, said: bytes) -> str:
        """Why the callback refuses it, or "". Raises BadChannelRecord, OSError, Broken where a secret that it may have
        is revoked meanwhile."""
        number, until = next(self._numbers), time.monotonic() + seconds
        self._say(Kind.ASK, connection, str(number), place, str(offset), said)
        poll = select.poll()
        poll.register(self._host, select.POLLIN)
        while (left := until - time.monotonic()) > 0:
            if not poll.poll(left * 1000):
                continue
            try:
                received = channel.receive(self._host)
            except LostDescriptors as lost:
                self._keep(lost)
                continue
            if received is None:
                self._keep(None)
                return GONE
            record = received[0]
            if record.kind is Kind.PING:
                self._say(Kind.PONG, record.number)
            elif record.kind is Kind.REVOKE:
                self._keep(received)  # what it is about may be among what is kept
                self._revoke(record, connection)
            elif record.kind is not Kind.ANSWER:
                self._keep(received)
            elif record.number == number:
                return record.fields[0].decode("utf-8", "replace")
        return LATE

    def _keep(self, received: Received | LostDescriptors) -> None:
        self._later.append(received)
        self._kept()


def pieces(said: bytes | bytearray) -> list[tuple[int, bytes]]:
    """Where each begins, and what it says: all of it, however it is cut."""
    begins = range(0, max(len(said) - AGAIN, 1), PIECE - AGAIN)
    return [(at, bytes(said[at : at + PIECE])) for at in begins] if said else []
