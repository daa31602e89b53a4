"""What is done to a body while it is passed on, piece by piece: texts replaced, or looked for. Pure.

Little is kept back, so that an event of a stream is passed on when it comes. What is looked for in a request is no
secret: what may be its beginning waits for more (`Pieces`). In an answer it is one: if what begins it waited, and
nothing else, whoever has the server say a guess and pause would learn the value letter by letter. So there the last
word waits, whatever it is (`CoveredStream`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from pysandbox.gate.inspection.spellings import readings
from pysandbox.shapes import Generic, Protocol, TypeVar

WIDEST = 6  # bytes in which one may be written (\\u0041)
PROBE = 4

T = TypeVar("T")


class Passing(Protocol):
    """What a body goes through. Raises what whoever made it wants to hear of."""

    def take(self, said: bytes, *, last: bool) -> bytes: ...
    def lines(self, said: bytes) -> bytes:
        """Takes the lines of a trailer."""


class Replacing:
    """Each text of the table by what it says, longer ones first."""

    def __init__(self, table: Mapping[bytes, bytes]) -> None:
        self._table = table
        self._texts = sorted(table, key=len, reverse=True)
        self._pattern = re.compile(b"|".join(map(re.escape, self._texts)))
        self.longest = len(self._texts[0])
        self.letters = bytes(range(0x20 if any(b" " in each for each in table) else 0x21, 0x7F))

    def whole(self, said: bytes) -> bytes:
        if not any(each in said for each in self._texts):
            return said
        return self._pattern.sub(lambda found: self._table[found[0]], said)

    def waits(self, said: bytes) -> int:
        """How many bytes at its end may be the beginning of a text."""
        last = 0
        if any(each in said for each in self._texts):
            for found in self._pattern.finditer(said):
                last = found.end()
        return max((_begun(said, last, each) for each in self._texts), default=0)


def _begun(said: bytes, last: int, text: bytes) -> int:
    """How many bytes at the end of `said`, after `last`, begin this text without ending it."""
    start = max(last, len(said) - len(text) + 1)
    at = said.find(text[:PROBE], start)
    while at >= 0:
        if text.startswith(said[at:]):
            return len(said) - at
        at = said.find(text[:PROBE], at + 1)
    for count in range(min(PROBE - 1, len(said) - start), 0, -1):
        if text.startswith(said[-count:]):
            return count
    return 0


class Pieces:
    """A stream cut anew, so that no text of `replacing` lies across a cut."""

    def __init__(self, replacing: Replacing) -> None:
        self._replacing, self._rest = replacing, b""

    def take(self, said: bytes, *, last: bool) -> bytes:
        said = self._rest + said
        at = len(said) - (0 if last else self._replacing.waits(said))
        self._rest = said[at:]
        return said[:at]


class CoveredStream:
    """Texts of `replacing` are replaced; letters after the last space or line wait, as many as the longest text has."""

    def __init__(self, replacing: Replacing) -> None:
        self._replacing, self._rest = replacing, b""

    def take(self, said: bytes, *, last: bool) -> bytes:
        said = self._replacing.whole(self._rest + said)
        end = b"" if last else said[1 - self._replacing.longest :]
        at = len(said) - len(end) + len(end.rstrip(self._replacing.letters))
        self._rest = said[at:]
        return said[:at]


class Watching(Generic[T]):
    """Whose text has come, in any reading. All texts are looked for in one reading before the next one is made, which
    costs far more."""

    def __init__(self, texts: Sequence[tuple[bytes, T]]) -> None:
        self._texts = texts
        self._kept = WIDEST * max((len(text) for text, _ in texts), default=0)
        self._tail = b""

    def sees(self, said: bytes) -> T | None:
        """Whose has, now that this has come: the first that is found."""
        if not self._texts:
            return None
        said = self._tail + said
        self._tail = said[-self._kept :]
        for reading in readings(said):
            for text, whose in self._texts:
                if text in reading:
                    return whose
        return None
