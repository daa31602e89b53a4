"""The bodies of HTTP/1.1 messages: read by the one framing that their head told, and framed anew as they are passed on,
piece by piece as they come. Pure.
"""

from __future__ import annotations

import re

from pysandbox.gate.inspection.heads import FRAMING, BadMessage, dashed, fields_of
from pysandbox.shapes import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from pysandbox.gate.inspection.passing import Passing

LONGEST_LINE = 4096  # of a chunk's size with its extensions, which are dropped
LONGEST_TRAILER = 16384
CHUNK = re.compile(rb"([0-9a-fA-F]{1,15})(?:[ \t]*;[\t\x20-\x7e\x80-\xff]*)?\r\n")


class Body(Protocol):
    """`size`: how much of the content has come; `done`: that was all of it. `passing` is what it goes through, `rest`
    what is to be passed on at its end. `is_looking`: it waits for nobody outside; `goes_on`: it has more to pass on,
    whatever comes."""

    done: bool
    may_begin: bool  # the head that it belongs to may be sent

    @property
    def size(self) -> int: ...

    passing: Passing | None
    rest: bytes

    @property
    def is_looking(self) -> bool: ...
    @property
    def goes_on(self) -> bool: ...
    def headed(self, head: bytes) -> bytes:
        """What of the head that it belongs to may go now; the rest goes with what is taken."""

    def leave(self) -> None:
        """Nobody wants it any more. Idempotent."""

    def take(self, buffer: bytearray) -> bytes:
        """Takes what it can out of the buffer; returns what is to be passed on. Raises BadMessage."""

    def end(self) -> bool:
        """Whether the message is whole when the sender closes now."""


class Through:
    passing: Passing | None = None
    rest = b""
    is_looking = goes_on = False
    may_begin = True

    def headed(self, head: bytes) -> bytes:
        return head

    def leave(self) -> None:
        return

    def through(self, said: bytes, *, last: bool) -> bytes:
        return said if self.passing is None else self.passing.take(said, last=last)


class Nothing(Through):
    """The body of a message that has none."""

    size, done = 0, True

    def take(self, buffer: bytearray) -> bytes:
        return b""

    def end(self) -> bool:
        return True


def _taken(buffer: bytearray, most: int) -> bytes:
    """So much out of the buffer, or all of it; copied once."""
    if len(buffer) <= most:
        said = bytes(buffer)
        buffer.clear()
        return said
    with memoryview(buffer) as view:
        said = bytes(view[:most])
    del buffer[:most]
    return said


class OfLength(Through):
    def __init__(self, length: int) -> None:
        self.size, self._left = 0, length
        self.done = length == 0

    def take(self, buffer: bytearray) -> bytes:
        said = _taken(buffer, self._left)
        self._left -= len(said)
        self.size += len(said)
        self.done = not self._left
        return self.through(said, last=self.done)

    def passes(self, count: int) -> bool:
        """Whether so many bytes that have come are content to the last one, and pass as they are: then they are
        counted, and whoever has them need not copy them."""
        if self.passing is not None or not 0 < count <= self._left:
            return False
        self._left -= count
        self.size += count
        self.done = not self._left
        return True

    def end(self) -> bool:
        return self.done


class UntilEnd(Through):
    """The body of a response that ends where the connection does."""

    def __init__(self) -> None:
        self.size, self.done = 0, False

    def take(self, buffer: bytearray) -> bytes:
        said = bytes(buffer)
        buffer.clear()
        self.size += len(said)
        return self.through(said, last=False)

    def end(self) -> bool:
        self.done, self.rest = True, self.through(b"", last=True)
        return True


class Chunked(Through):
    """Chunks are read strictly and written anew, without extensions. `bare`: for a client of HTTP/1.0, which knows no
    chunks: the content alone."""

    def __init__(self, *, bare: bool = False) -> None:
        self.size, self.done = 0, False
        self._bare = bare
        self._left = 0  # of the chunk
        self._state = "size"

    def take(self, buffer: bytearray) -> bytes:
        out: list[bytes] = []
        while not self.done and buffer:
            if not getattr(self, f"_{self._state}")(buffer, out):
                break
        content = b"".join(out)
        self.size += len(content)
        content = self.through(content, last=self.done)
        if self._bare:
            return content
        chunk = b"%x\r\n%s\r\n" % (len(content), content) if content else b""
        return chunk + self._trailer_said if self.done else chunk

    def end(self) -> bool:
        return self.done

    def _size(self, buffer: bytearray, out: list[bytes]) -> bool:
        end = buffer.find(b"\n", 0, LONGEST_LINE)
        if end < 0:
            if len(buffer) >= LONGEST_LINE:
                raise BadMessage("the line of a chunk's size is too long")
            return False
        line = CHUNK.fullmatch(buffer, 0, end + 1)
        if line is None:
            raise BadMessage("not the size of a chunk")
        self._left = int(line[1], 16)
        del buffer[: end + 1]
        self._state = "content" if self._left else "trailer"
        return True

    def _content(self, buffer: bytearray, out: list[bytes]) -> bool:
        said = _taken(buffer, self._left)
        self._left -= len(said)
        out.append(said)
        if not self._left:
            self._state = "after"
        return True

    def _after(self, buffer: bytearray, out: list[bytes]) -> bool:
        if len(buffer) < 2 and buffer == b"\r":
            return False
        if buffer[:2] != b"\r\n":
            raise BadMessage("a chunk that is longer than it says")
        del buffer[:2]
        self._state = "size"
        return True

    def _trailer(self, buffer: bytearray, out: list[bytes]) -> bool:
        if buffer[:2] == b"\r\n":
            lines, size = b"", 2
        else:
            end = buffer.find(b"\r\n\r\n", 0, LONGEST_TRAILER)
            if end < 0:
                if len(buffer) >= LONGEST_TRAILER:
                    raise BadMessage("a trailer that is too long")
                return False
            lines, size = bytes(buffer[: end + 2]), end + 4
        fields = fields_of(lines)
        if any(dashed(name) in FRAMING for name, _, _ in fields):
            raise BadMessage("a trailer that would frame the message")
        del buffer[:size]
        self.done = True
        said = b"".join([b"%s: %s\r\n" % (name, value) for _, name, value in fields])
        self._trailer_said = b"0\r\n%s\r\n" % (said if self.passing is None else self.passing.lines(said))
        return True

    _trailer_said = b""
