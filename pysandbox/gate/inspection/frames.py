"""The frames of a WebSocket in one direction (RFC 6455, section 5): read strictly, and written anew as they are passed
on, piece by piece. Pure.

No extension was agreed on, so no reserved bit is ever set. Each piece is passed on as a frame of its own, masked anew
towards a server; so a close frame fits between any two of them.
"""

from __future__ import annotations

import codecs
import os
import struct
from collections.abc import Callable

from pysandbox.gate.inspection.heads import BadMessage
from pysandbox.shapes import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from pysandbox.gate.inspection.passing import Passing

CONTINUATION, TEXT, BINARY, CLOSE, PING, PONG = 0, 1, 2, 8, 9, 10
CONTROL = frozenset((CLOSE, PING, PONG))
FINAL, RESERVED, MASKED = 0x80, 0x70, 0x80
LONGEST_CONTROL = 125
WHOLE = 8192  # a frame of so many bytes is waited for, so that it stays one
AT_ONCE = 512  # frames that are read in one turn
CODES = (*range(1000, 1004), *range(1007, 1015), *range(3000, 5000))


class FrameHead(NamedTuple):
    size: int  # of the head
    final: bool
    opcode: int
    length: int
    mask: bytes


class Frames:
    """`masked`: they are a client's. `hold` is told how large a message is so far, before it goes on. `closed`: a
    close frame has passed, and nothing more does. `more`: there is more to read in another turn."""

    def __init__(
        self, *, masked: bool, hold: Callable[[int], object], passing: Passing | None, at_once: int = AT_ONCE
    ) -> None:
        """`at_once`: frames that are read in one turn."""
        self._at_once = at_once
        self._masked, self._hold, self._passing = masked, hold, passing
        self.closed = self.more = False
        self._message = 0  # its opcode, while one goes on
        self._opcode = 0  # of the next frame that is written of it
        self._frame: FrameHead | None = None  # whose content comes in pieces
        self._left = self._size = 0  # bytes of that frame to come; of the message so far
        self._text = codecs.getincrementaldecoder("utf-8")()

    def take(self, buffer: bytearray) -> bytes:
        """Takes what it can out of the buffer; returns what is to be passed on. Raises BadMessage, and what
        `hold` and `passing` raise."""
        out: list[bytes] = []
        self.more = False
        for _ in range(self._at_once):
            if self.closed:
                buffer.clear()
            if not buffer or not self._step(buffer, out):
                return b"".join(out)
        self.more = bool(buffer)
        return b"".join(out)

    def _step(self, buffer: bytearray, out: list[bytes]) -> bool:
        """Whether it was a step: a frame, or a piece of one."""
        if self._frame is None:
            head = frame_head(buffer, masked=self._masked)
            if head is None or (head.length <= WHOLE and len(buffer) < head.size + head.length):
                return False
            del buffer[: head.size]
            if head.opcode in CONTROL:
                self._control(head, _taken(buffer, head.length, head.mask), out)
                return True
            self._begin(head)
        frame = self._frame
        assert frame is not None
        said = _taken(buffer, self._left, _turned(frame.mask, frame.length - self._left))
        self._left -= len(said)
        if not self._left:
            self._frame = None
        self._pass(said, last=frame.final and not self._left, out=out)
        return True

    def _begin(self, head: FrameHead) -> None:
        if (head.opcode == CONTINUATION) != bool(self._message):
            raise BadMessage("a frame that goes on with no message, or begins one inside of another")
        if not self._message:
            self._message = self._opcode = head.opcode
            self._size = 0
        self._size += head.length
        self._hold(self._size)
        self._frame, self._left = head, head.length

    def _pass(self, said: bytes, *, last: bool, out: list[bytes]) -> None:
        if self._message == TEXT:
            try:
                self._text.decode(said, last)
            except UnicodeDecodeError:
                raise BadMessage("a text that is not UTF-8") from None
        if self._passing is not None:
            said = self._passing.take(said, last=last)
        if said or last:
            out.append(frame(self._opcode, said, final=last, masked=self._masked))
            self._opcode = CONTINUATION
        if last:
            self._message = 0

    def _control(self, head: FrameHead, said: bytes, out: list[bytes]) -> None:
        if head.opcode == CLOSE:
            _check_close(said)
            self.closed = True
        if self._passing is not None:
            said = self._passing.lines(said)
        out.append(frame(head.opcode, said, masked=self._masked))


def frame_head(buffer: bytearray, *, masked: bool) -> FrameHead | None:
    """The head at the beginning of the buffer; None while it is not whole. Raises BadMessage."""
    if len(buffer) < 2:
        return None
    first, second = buffer[0], buffer[1]
    opcode, length = first & 15, second & 127
    if first & RESERVED or not (opcode <= BINARY or opcode in CONTROL):
        raise BadMessage("a frame of an extension that nobody asked for")
    if bool(second & MASKED) != masked:
        raise BadMessage("a frame of a client is not masked" if masked else "a frame of a server is masked")
    if opcode in CONTROL and (length > LONGEST_CONTROL or not first & FINAL):
        raise BadMessage("a control frame that is too long, or in pieces")
    more = {126: 2, 127: 8}.get(length, 0)
    size = 2 + more + 4 * masked
    if len(buffer) < size:
        return None
    if more:
        length = int.from_bytes(buffer[2 : 2 + more], "big")
        if length < (126 if more == 2 else 65536) or length >> 63:
            raise BadMessage("the length of a frame in a spelling that is not its shortest")
    return FrameHead(size, bool(first & FINAL), opcode, length, bytes(buffer[2 + more : size]))


def frame(opcode: int, said: bytes, *, final: bool = True, masked: bool) -> bytes:
    """As it is sent."""
    size, first, mark = len(said), FINAL * final | opcode, MASKED * masked
    if size < 126:
        head = bytes((first, mark | size))
    elif size < 65536:
        head = struct.pack("!BBH", first, mark | 126, size)
    else:
        head = struct.pack("!BBQ", first, mark | 127, size)
    if not masked:
        return head + said
    mask = os.urandom(4)  # nobody on the way can know what the wire will show (10.3)
    return head + mask + _mixed(said, mask)


def close_frame(code: int, why: str) -> bytes:
    """Towards a client."""
    return frame(CLOSE, struct.pack("!H", code) + why.encode("ascii", "replace")[: LONGEST_CONTROL - 2], masked=False)


def _check_close(said: bytes) -> None:
    """Raises BadMessage."""
    if not said:
        return
    try:
        said[2:].decode("utf-8")
    except UnicodeDecodeError:
        raise BadMessage("a close frame whose reason is not UTF-8") from None
    if len(said) < 2 or int.from_bytes(said[:2], "big") not in CODES:
        raise BadMessage("a close frame without a code that may be sent")


def _taken(buffer: bytearray, count: int, mask: bytes) -> bytes:
    said = bytes(buffer[:count])
    del buffer[:count]
    return _mixed(said, mask) if mask else said


def _turned(mask: bytes, at: int) -> bytes:
    """For what stands at `at` in the frame."""
    return mask[at % 4 :] + mask[: at % 4]


def _mixed(said: bytes, mask: bytes) -> bytes:
    size = len(said)
    whole = (mask * (size // 4 + 1))[:size]
    return (int.from_bytes(said, "little") ^ int.from_bytes(whole, "little")).to_bytes(size, "little")
