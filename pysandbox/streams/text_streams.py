"""The host's ends of a command's pipes as files of text, for `Process` with text=True; and what was read ahead.

io.TextIOWrapper reads ahead and gives nothing back: what it holds would be lost to `communicate`.
"""

from __future__ import annotations

import io
import select
from collections.abc import Iterable

from pysandbox.command import TextCoding
from pysandbox.shapes import IO

READ_SIZE = 65536
_INNER = ("utf-8", "surrogatepass")  # holds every str


class Unread:
    """What was read of one stream and not asked for yet, handed out as bytes, or with a `coding` as text."""

    def __init__(self, coding: TextCoding | None) -> None:
        self.ended = False
        self._decoder = coding.decoder() if coding is not None else None
        self._kept = bytearray()  # of text: in `_INNER`
        self._searched = 0  # so far there is no end of a line

    def __len__(self) -> int:
        return len(self._kept)

    def count(self) -> int:
        """How many bytes, or letters, are there."""
        return len(self._kept) if self._decoder is None else len(self._kept.decode(*_INNER))

    def add(self, chunk: bytes) -> None:
        """What one read gave; nothing is the end of the stream."""
        self.ended = not chunk
        self._kept += chunk if self._decoder is None else self._decoder.decode(chunk, self.ended).encode(*_INNER)

    def take(self, size: int = -1) -> bytes | str:
        """At most so many bytes or characters; all of it where `size` is negative."""
        if self._decoder is not None and 0 <= size < len(self._kept):
            size = len(self._kept.decode(*_INNER)[:size].encode(*_INNER))
        return self._cut(len(self._kept) if size < 0 else size)

    def line(self, longest: int | None = None) -> bytes | str | None:
        """To the end of a line, or of the stream, where nothing at all is left of it; None while no line is whole.
        What is longer than `longest` bytes is cut there."""
        at = self._kept.find(b"\n", self._searched)
        self._searched = len(self._kept)
        whole = at + 1 if at >= 0 else len(self._kept) if self.ended else 0
        if longest is not None and (whole > longest or (not whole and len(self._kept) >= longest)):
            whole = self._to_a_letter(longest)
        return self._cut(whole) if whole or self.ended else None

    def _to_a_letter(self, size: int) -> int:
        """Not into the middle of one."""
        while self._decoder is not None and size < len(self._kept) and self._kept[size] & 0xC0 == 0x80:
            size += 1
        return size

    def _cut(self, size: int) -> bytes | str:
        taken = bytes(self._kept[:size])
        del self._kept[:size]
        self._searched = 0
        return taken if self._decoder is None else taken.decode(*_INNER)

    def followed_by(self, data: bytes) -> bytes | str:
        """What is left and, after it, `data`, the last of the stream; nothing is taken."""
        if self._decoder is None:
            return bytes(self._kept) + data
        state = self._decoder.getstate()
        try:
            return self._kept.decode(*_INNER) + self._decoder.decode(data, True)
        finally:
            self._decoder.setstate(state)


class TextReader(io.TextIOBase):
    """A pipe to read, line by line or as much as there is; line ends are left as they were written."""

    def __init__(self, raw: IO[bytes], coding: TextCoding) -> None:
        self._raw = raw
        self._coding = coding
        self.unread = Unread(coding)

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return self._coding.encoding

    def readable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._raw.fileno()

    def read(self, size: int | None = -1, /) -> str:
        """All to the end, or at most `size` characters as soon as there are any."""
        wanted = -1 if size is None else size
        while not self.unread.ended and (wanted < 0 or (wanted and not self.unread)):
            self._more()
        return str(self.unread.take(wanted))

    def readline(self, size: int = -1, /) -> str:  # type: ignore[override]
        if not size:
            return ""
        while (line := self.unread.line(size if size > 0 else None)) is None:
            self._more()
        return str(line)

    def _more(self) -> None:
        while True:
            chunk: bytes | None = self._raw.read(READ_SIZE)
            if chunk is not None:
                return self.unread.add(chunk)
            select.select([self._raw], [], [])  # `communicate` has made it a pipe that does not wait

    def close(self) -> None:
        self._raw.close()
        super().close()


class TextWriter(io.TextIOBase):
    """A pipe to write; nothing is held back, so there is nothing to flush."""

    def __init__(self, raw: IO[bytes], coding: TextCoding) -> None:
        self._raw = raw
        self._coding = coding
        self._encoder = coding.encoder()

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return self._coding.encoding

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._raw.fileno()

    def write(self, text: str, /) -> int:
        left = memoryview(self._encoder.encode(text))
        while left:
            written: int | None = self._raw.write(left)
            if written is None:  # as for a reader
                select.select([], [self._raw], [])
            else:
                left = left[written:]
        return len(text)

    def writelines(self, lines: Iterable[str], /) -> None:  # type: ignore[override]
        self.write("".join(lines))

    def close(self) -> None:
        self._raw.close()
        super().close()
