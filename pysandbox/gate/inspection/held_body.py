"""The body of a request that is looked at before it is sent: kept until it is whole, or as much of it has come as is
looked at together, then scanned in steps, so that nobody else waits for long, and then handed on in pieces, with the
head before it: what is refused never arrives.

Of a body that is longer, the last OVERLAP bytes stay until more has come, and are looked at once more with that. So no
byte of a credential has left before the verdict on all of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from pysandbox.dlp.engine import OVERLAP
from pysandbox.gate.inspection.bodies import Body, Chunked
from pysandbox.gate.inspection.passing import Passing
from pysandbox.gate.inspection.room import FREE, Room

PIECE = 65536  # bytes that are handed on at once
AT_ONCE, A_STEP = 1 << 18, 256  # what is looked at in one turn; what a step costs, however little it looks at
LEAST = 4 * OVERLAP  # of what is looked at together

# (content, trailer, whether it begins so, whether it ends so) to a scan that is gone through step by step. Raises Leak.
Look = Callable[[bytearray, bytes, bool, bool], Iterator[int]]


class _Kept:
    """What a body goes through: nothing of it is passed on."""

    def __init__(self) -> None:
        self.content, self.trailer = bytearray(), b""

    def take(self, said: bytes, *, last: bool) -> bytes:
        self.content += said
        return b""

    def lines(self, said: bytes) -> bytes:
        self.trailer = said
        return said


class HeldBody:
    rest = b""

    def __init__(self, body: Body, look: Look, most: int, room: Room, wake: Callable[[], object], need: int) -> None:
        """`most`: bytes that are looked at together; `need`: how many there will be, as far as that is known."""
        self.passing: Passing | None = None
        self.done = self.may_begin = False
        self.trailer = b""  # its lines, once it is done
        self._body, self._look, self._most, self._room = body, look, max(most, LEAST), room
        self._kept = body.passing = _Kept()
        self._steps: Iterator[int] | None = None
        self._head = b""
        self._cleared = 0  # bytes of what is kept that may go
        self._is_behind = False  # it left in the buffer what it had no room for
        self._need, self._wake, self._has_asked = min(need, self._most) + OVERLAP, wake, False

    @property
    def size(self) -> int:
        return self._body.size

    @property
    def is_looking(self) -> bool:
        """Whether it waits for its room, or for the end of a scan: for nobody outside."""
        return self._steps is not None or (self._has_asked and not self.done and not self._room.has(self))

    @property
    def goes_on(self) -> bool:
        """Whether there is more to do, whatever comes."""
        if self.done or not self._has_room():
            return False
        return self._steps is not None or self._cleared > 0 or self._is_behind

    def end(self) -> bool:
        return self._body.end()

    def headed(self, head: bytes) -> bytes:
        """A request that is refused never begins."""
        self._head = head
        return b""

    def leave(self) -> None:
        """It is not wanted any more. Idempotent."""
        self._room.leave(self)
        self._steps, self._cleared = None, 0
        self._kept.content = bytearray()  # a scan that ended before its time may still hold the other one

    def take(self, buffer: bytearray) -> bytes:
        """Raises BadMessage, Leak."""
        try:
            if self.done or not self._has_room():
                self._is_behind = not self.done
                return b""
            return self._take(buffer)
        except BaseException:
            self.leave()
            raise

    def _has_room(self) -> bool:
        if len(self._kept.content) < FREE:
            return True
        if not self._has_asked:
            self._has_asked = True
            self._room.ask(self, self._need, self._wake)
        return self._room.has(self)

    def _take(self, buffer: bytearray) -> bytes:
        if self._steps is not None:
            return self._step()
        said = self._piece() if self._cleared else b""
        if not (self._cleared or self.done):
            self._fill(buffer)
        return said

    def _fill(self, buffer: bytearray) -> None:
        self._is_behind = False
        self._body.take(buffer)
        if self._body.done or len(self._kept.content) >= self._most:
            content = self._kept.content  # which is not copied: it stays as it is while it is looked at
            self._steps = self._look(content, self._kept.trailer, self._body.size == len(content), self._body.done)

    def _step(self) -> bytes:
        assert self._steps is not None
        spent = 0
        for size in self._steps:
            spent += size + A_STEP
            if spent >= AT_ONCE:
                return b""
        self._steps = None
        self._cleared = len(self._kept.content) - (0 if self._body.done else OVERLAP)
        return self._piece() if self._cleared else self._handed(b"", last=True)

    def _piece(self) -> bytes:
        said = bytes(self._kept.content[: min(PIECE, self._cleared)])
        del self._kept.content[: len(said)]
        self._cleared -= len(said)
        return self._handed(said, last=self._body.done and not self._cleared)

    def _handed(self, said: bytes, *, last: bool) -> bytes:
        content = said if self.passing is None else self.passing.take(said, last=last)
        trailer = self._kept.trailer
        if last:
            trailer = trailer if self.passing is None else self.passing.lines(trailer)
            self.done, self.trailer = True, trailer
            self.leave()
        self.may_begin = True
        head, self._head = self._head, b""
        if not isinstance(self._body, Chunked):
            return head + content
        chunk = head + (b"%x\r\n%s\r\n" % (len(content), content) if content else b"")
        return chunk + b"0\r\n%s\r\n" % trailer if last else chunk
