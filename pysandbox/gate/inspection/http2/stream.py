"""One request and its answer, while they pass: a stream of the client's, and the one to the server that it became."""

from __future__ import annotations

from collections.abc import Callable

from h2.connection import H2Connection

from pysandbox.gate.inspection.bodies import Body, Nothing, Through
from pysandbox.gate.inspection.heads import Head
from pysandbox.gate.inspection.http2.fields import Listed, listed_lines
from pysandbox.gate.inspection.leak import RequestScan

AT_ONCE = 65536  # bytes of one stream in one turn


class Streamed(Through):
    """Content as DATA frames bring it; `ended` when there will be no more."""

    def __init__(self, *, ended: bool = False) -> None:
        self.size, self.done, self.ended, self.trailer = 0, False, ended, b""

    def take(self, buffer: bytearray) -> bytes:
        said = bytes(buffer)
        buffer.clear()
        self.size += len(said)
        said = self.through(said, last=self.ended)
        if self.ended and not self.done and self.trailer and self.passing is not None:
            self.trailer = self.passing.lines(self.trailer)
        self.done = self.ended
        return said

    def end(self) -> bool:
        return self.ended


class Flow:
    """Content in one direction: `come` has not been looked at, `out` waits until the other side takes it."""

    def __init__(self) -> None:
        self.body: Body = Nothing()
        self.source: Streamed | None = None  # of what comes; the body may be what looks at it
        self.come, self.out = bytearray(), bytearray()
        self.ended = False  # the other side was told that this is all
        self._moved = self._stopped = False  # the last look took something; the last turn ended before the window did

    def begin(self, source: Streamed | None, body: Body) -> None:
        self.source, self.body = source, body

    def answer(self, content: bytes) -> None:
        """What is said here, in the place of anybody else."""
        source = Streamed(ended=True)
        source.done = self.ended = not content
        self.begin(source, source)
        self.come[:] = content
        self.out.clear()

    @property
    def waits(self) -> int:
        return len(self.come) + len(self.out)

    def goes_on(self, high: int) -> bool:
        """Whether another turn brings it further, whatever comes."""
        looks = len(self.out) < high and (self.body.goes_on or (self._moved and self.has_more))
        return looks or (self._stopped and bool(self.out))

    @property
    def has_more(self) -> bool:
        """Whether the body has something to say to a turn."""
        source = self.source
        return bool(self.come) or self.body.goes_on or (source is not None and source.ended and not self.body.done)

    def look(self, seen: Callable[[int], object]) -> int:
        """Takes what has come through the body; returns how much of it was taken. Raises what the body and `seen`
        raise."""
        before, waited = len(self.come), len(self.out)
        self.out += self.body.take(self.come)
        seen(self.body.size)
        self._moved = len(self.come) < before or len(self.out) > waited
        return before - len(self.come)

    def send(self, to: H2Connection, number: int) -> bool:
        """As much as the window has room for; whether the last of it went."""
        sent, self._stopped = 0, False
        while self.out and sent < AT_ONCE:
            room = min(to.local_flow_control_window(number), to.max_outbound_frame_size)
            if room <= 0:
                return False
            piece = bytes(self.out[:room])
            del self.out[:room]
            sent += len(piece)
            last = self.body.done and not self.out and not self.trailer
            to.send_data(number, piece, end_stream=last)
            self.ended = last
        self._stopped = bool(self.out)
        if self.body.done and not self.out and not self.ended:
            self.ended = True
            if self.trailer:
                to.send_headers(number, listed_lines(self.trailer), end_stream=True)
            else:
                to.end_stream(number)
        return self.ended

    @property
    def trailer(self) -> bytes:
        return getattr(self.body, "trailer", b"")


class Http2Stream:
    """`number` is the client's, `beyond` the one to the server, 0 until the request was sent. `fields`: its head, until
    then. `since`: the moment at which it last went further, by what its client said or what its server got, while an
    answer is owed."""

    def __init__(self, number: int, head: Head | None, scan: RequestScan | None) -> None:
        self.number, self.beyond, self.head, self.scan = number, 0, head, scan
        self.fields: Listed = []
        self.sent, self.received = Flow(), Flow()
        self.answered = self.refused = False
        self.interim = 0
        self.since: float | None = None

    @property
    def is_over(self) -> bool:
        return self.received.ended and (self.sent.ended or self.refused)

    @property
    def waits(self) -> int:
        return self.sent.waits + self.received.waits
