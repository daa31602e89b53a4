"""What comes is cut into whole frames before the library sees it: so many in one turn, and none that nobody uses.

A frame costs its sender nine bytes and its reader far more, so a turn takes few of them, and fewer still where they
bring little: content in pieces of one byte is content all the same, and no other cage waits for it. A side that sends
more frames without content than its requests and answers account for is told to calm down (RFC 9113, 10.5): floods of
PING, SETTINGS, empty DATA, window updates, and streams that are reset as soon as they are opened. Pure.
"""

from __future__ import annotations

import struct

from pysandbox.gate.inspection.heads import LONGEST_HEAD, BadMessage
from pysandbox.shapes import NamedTuple

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
HEAD, ENTRY = struct.Struct("!BHBBI"), struct.Struct("!HI")
HEAD_SIZE, LONGEST = 9, 16384  # of a frame; the default of SETTINGS_MAX_FRAME_SIZE, which is never raised
DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PUSH_PROMISE, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = range(10)
ACK = END_STREAM = 0x1
END_HEADERS = 0x4
PADDED = 0x8
COSTLY = (HEADERS, CONTINUATION, SETTINGS)
TABLE_SIZE, TABLE = 1, 4096
KNOWN = (TABLE_SIZE, 2, 3, 4, 5, 6)  # of RFC 9113, 6.5.2
AT_ONCE = 48  # frames of one turn; a header block counts for more
FEW, SMALL = 12, 64  # of a side whose frames of DATA bring less than SMALL bytes for the most part
PER_FRAME = 128  # bytes of a header block that count for one
CREDIT = 2000  # frames without content that a side has left at most
NO_ERROR, PROTOCOL_ERROR, INTERNAL_ERROR, REFUSED_STREAM, CANCEL, ENHANCE_YOUR_CALM = 0, 1, 2, 7, 8, 11


class Flood(BadMessage):
    """A side sends frames that cost something, and bring nothing."""


class Leaves(NamedTuple):
    """The other side's GOAWAY."""

    last: int
    code: int


class FrameCutter:
    """Cuts what one side sends. `leaves`: it has said that it opens no stream any more, or works on none after
    `last`."""

    def __init__(self, *, preface: bool) -> None:
        self._preface = preface
        self._credit = CREDIT
        self._block = 0  # bytes of a header block that is not whole
        self._at_once = AT_ONCE
        self.more = False  # whole frames are left for another turn
        self.leaves: Leaves | None = None
        self.answer = bytearray()  # to its PINGs

    @property
    def is_begun(self) -> bool:
        """Whether a header block, or the connection, has begun that is not whole."""
        return self._preface or self._block > 0

    def counts(self, frames: int = 1) -> None:
        """Something of use has passed, on account of which it may send so many frames without content."""
        self._credit = min(CREDIT, self._credit + frames)

    def spend(self, frames: int = 1) -> None:
        """Raises Flood."""
        self._credit -= frames
        if self._credit < 0:
            raise Flood("more frames without content than its requests account for")

    def take(self, buffer: bytearray) -> bytes:
        """Takes whole frames for one turn; returns what the library is to see. Raises BadMessage, Flood."""
        out: list[bytes] = []
        self.more = False
        if self._preface:
            if not PREFACE.startswith(bytes(buffer[: len(PREFACE)])):
                raise BadMessage("not the preface of HTTP/2")
            if len(buffer) < len(PREFACE):
                return b""
            self._preface = False
            out.append(PREFACE)
            del buffer[: len(PREFACE)]
        at, left, small = 0, self._at_once, 0
        while left > 0 and len(buffer) - at >= HEAD_SIZE:
            high, low, kind, flags, _ = HEAD.unpack_from(buffer, at)
            size = HEAD_SIZE + (high << 16 | low)
            if size > HEAD_SIZE + LONGEST:
                raise BadMessage("a frame that is longer than any may be")
            if len(buffer) - at < size:
                break
            left -= 1 + (size // PER_FRAME if kind in COSTLY else 0)
            small += kind == DATA and size < HEAD_SIZE + SMALL
            frame = bytes(buffer[at : at + size])
            at += size
            if self._is_for_the_library(kind, flags, frame):
                out.append(known_settings(frame) if kind == SETTINGS else frame)
        del buffer[:at]
        self.more = left <= 0 and bool(buffer)
        self._at_once = FEW if 2 * small > self._at_once - left else AT_ONCE
        return b"".join(out)

    def _is_for_the_library(self, kind: int, flags: int, frame: bytes) -> bool:
        size = len(frame) - HEAD_SIZE
        if kind == DATA:
            padding = 1 + frame[HEAD_SIZE] if flags & PADDED and size else 0
            if size <= padding and not flags & END_STREAM:
                self.spend()
            return True
        if self._block or kind in (HEADERS, CONTINUATION):
            self._block_goes_on(kind, flags, size)
            return True
        self.spend(1 + (size // PER_FRAME if kind == SETTINGS else 0))
        if kind == PING and size == 8:
            if not flags & ACK:
                self.answer += HEAD.pack(0, 8, PING, ACK, 0) + frame[HEAD_SIZE:]
            return False
        if kind == GOAWAY and size >= 8:
            last, code = struct.unpack_from("!II", frame, HEAD_SIZE)
            self.leaves = Leaves(last & 0x7FFFFFFF, code)
            return False
        return kind not in (PING, PRIORITY) and kind <= CONTINUATION  # of no extension: nothing was agreed on

    def _block_goes_on(self, kind: int, flags: int, size: int) -> None:
        if kind == CONTINUATION and not size:
            self.spend(8)
        self._block += size + 1
        if self._block > LONGEST_HEAD:
            raise BadMessage(f"a header block of more than {LONGEST_HEAD} bytes")
        if flags & END_HEADERS:
            self._block = 0


def known_settings(frame: bytes) -> bytes:
    """A SETTINGS frame without what nobody here knows, which the library would remember, and with the default as the
    most for the table that it keeps of what was sent (RFC 7541, 4.2): one that was asked for 4 GiB would have it."""
    said = frame[HEAD_SIZE:]
    if len(said) % ENTRY.size:
        return frame  # which the library refuses
    known = [(key, min(value, TABLE) if key == TABLE_SIZE else value) for key, value in ENTRY.iter_unpack(said)
             if key in KNOWN]  # fmt: skip
    said = b"".join([ENTRY.pack(*each) for each in known])
    return HEAD.pack(0, len(said), *HEAD.unpack_from(frame)[2:]) + said


def goaway(last: int, code: int, why: str = "") -> bytes:
    """Written here: to the library, a connection that is said goodbye to has ended, with all its streams."""
    said = struct.pack("!II", last, code) + why.encode("ascii", "replace")[:200]
    return HEAD.pack(0, len(said), GOAWAY, 0, 0) + said
