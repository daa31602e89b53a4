"""The body of a request that is looked at before it is sent: kept until as much of it has come as is looked at together
(`holding`), then scanned in steps, so that nobody else waits for long, and then handed on in pieces, with the head
before it. So no byte of a credential has left before the verdict on all of it; and of a body that is held whole, what
is refused never arrives.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from pysandbox.dlp.engine import OVERLAP
from pysandbox.gate.inspection.bodies import Body, Chunked
from pysandbox.gate.inspection.holding import BodyPart, HoldBack
from pysandbox.gate.inspection.passing import Passing
from pysandbox.gate.inspection.room import FREE, Room

PIECE = 65536  # bytes that are handed on at once
AT_ONCE, A_STEP = 1 << 18, 256  # what is looked at in one turn; what a step costs, however little it looks at

# (what is looked at, trailer, whether anything was sent before) to a scan, gone through step by step. Raises Leak.
Look = Callable[[BodyPart, bytes, bool], Iterator[int]]


class _NothingPasses:
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

    def __init__(self, body: Body, look: Look, holding: HoldBack, room: Room, wake: Callable[[], object]) -> None:
        self.passing: Passing | None = None
        self.done, self.may_begin = False, holding.is_answered_early
        self.trailer = b""  # its lines, once it is done
        self._body, self._look, self._holding, self._room = body, look, holding, room
        self._kept = body.passing = _NothingPasses()
        self._steps: Iterator[int] | None = None
        self._head = b""
        self._sent = self._counted = 0  # bytes of what is kept that were sent, and that were counted
        self._goes = 0  # bytes of what is kept that may go, or will when they were looked at
        self._has_sent = self._has_part = self._is_deciding = False
        self._looks_again = body.done  # it may go on though nothing came
        self._is_behind = False  # it left in the buffer what it had no room or no turn for
        self._wake, self._has_asked = wake, False
        self._has_left = False

    @property
    def size(self) -> int:
        return self._body.size

    @property
    def is_looking(self) -> bool:
        """Whether it waits for its room, or for the end of a scan: for nobody outside."""
        if self._has_left:
            return False
        return self._steps is not None or (self._has_asked and not self.done and not self._room.has(self))

    @property
    def goes_on(self) -> bool:
        """Whether there is more to do, whatever comes."""
        if self.done or self._has_left or not self._has_room():
            return False
        return self._steps is not None or self._goes > self._sent or self._is_behind or self._looks_again

    def end(self) -> bool:
        return self._body.end()

    def headed(self, head: bytes) -> bytes:
        """A request that is refused at its beginning never begins."""
        if self.may_begin:
            return head
        self._head = head
        return b""

    def leave(self) -> None:
        """The body is not wanted any more: it takes nothing, and has nothing in the Room. Idempotent."""
        self._has_left = True
        self._room.leave(self)
        self._steps, self._sent, self._goes = None, 0, 0
        self._kept.content = bytearray()  # a scan that ended before its time may still hold the other one

    def take(self, buffer: bytearray) -> bytes:
        """Raises BadMessage, Leak."""
        try:
            if self.done or self._has_left:
                return b""
            if not self._has_room():
                self._is_behind = True
                return b""
            return self._take(buffer)
        except BaseException:
            self.leave()
            raise

    def _has_room(self) -> bool:
        if self._is_deciding:  # it had, and takes nothing meanwhile
            return True
        keeps = len(self._kept.content) - (self._goes if self._holding.lets_go else 0)
        self._room.keeps(self, keeps)
        if self._room.spares(keeps):
            return True
        if not self._has_asked:
            self._has_asked = True
            self._room.ask(self, self._holding.need + OVERLAP, self._wake)
        return self._room.has(self)

    def _take(self, buffer: bytearray) -> bytes:
        if self._steps is not None:
            self._is_behind = self._is_behind or bool(buffer)
            return self._step()
        said = self._piece() if self._goes > self._sent else b""
        if not (self._goes > self._sent or self.done):
            self._fill(buffer)
        return said

    def _fill(self, buffer: bytearray) -> None:
        self._is_behind = False
        content = self._kept.content
        before = len(content), self._body.done
        self._body.take(buffer)
        self._room.keeps(self, len(content))
        if (len(content), self._body.done) == before and not self._looks_again:
            return
        self._looks_again = False
        self._is_deciding = True
        self._steps = self._look_at_part()

    def _look_at_part(self) -> Iterator[int]:
        """What is kept is not copied for it: it stays as it is while it is looked at."""
        content = self._kept.content
        part = yield from self._holding.deciding(content, self._sent, self._counted, done=self._body.done)
        self._is_deciding, self._has_part = False, part is not None
        if part is not None:
            self._goes, self._counted = part.goes, part.counted
            yield from self._look(part, self._kept.trailer, self._has_sent)

    def _step(self) -> bytes:
        assert self._steps is not None
        spent = 0
        for size in self._steps:
            spent += size + A_STEP
            if spent >= AT_ONCE:
                return b""
        self._steps = None
        return self._piece() if self._has_part else b""

    def _piece(self) -> bytes:
        content = self._kept.content
        said = bytes(content[self._sent : min(self._sent + PIECE, self._goes)])
        self._sent += len(said)
        if (old := self._sent - self._holding.context) > 0:
            del content[:old]
            self._sent, self._goes, self._counted = self._sent - old, self._goes - old, max(0, self._counted - old)
        if self._has_asked and len(content) < FREE:
            self._has_asked = False
            self._room.leave(self)
        self._has_sent = self._has_sent or bool(said)
        is_all = self._sent == len(content)
        self._looks_again = self._goes == self._sent and not is_all
        return self._handed(said, last=self._body.done and is_all)

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
