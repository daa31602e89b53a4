"""How much of a body is looked at together, and how much of it may go then: one that is held as a whole, and one
without a known end, which goes as far as nothing has begun in it that may become a credential.

`held_body` asks after each piece that has come. Its content begins with what was sent already, as much of it as is
looked at again.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator

from pysandbox.dlp.ending import BOUNDARY, WINDOW
from pysandbox.dlp.engine import OVERLAP
from pysandbox.shapes import NamedTuple, Protocol

LEAST = 4 * OVERLAP  # of what is looked at together
CONTEXT = 1024  # bytes of what was sent that are looked at again
ALWAYS = 4096  # bytes; what waits and is no more is looked at whenever more has come
TIMES, MORE = 64, 1 << 22  # bytes that are looked at in vain: so many times what has come, and so many besides
STEPS = (0, 64, 256, 1024, 4096, 16384)  # bytes before the end at which a place to cut is looked for
SHORTEST_BYTES = 8  # that are no text, and are counted as opaque
ZLIB = 16  # bytes before a cut in which something compressed may have begun

_LAST_BOUNDARY = re.compile(rb"(?s).*[" + BOUNDARY + rb"][\x00\x80-\xff]*")
_BYTES = re.compile(rb"[^\t\r\n\x20-\x7e]*\Z")


class BodyPart(NamedTuple):
    """`said` is looked at; opaque bytes are counted in it from `known` on. Then the content may go up to `goes`, and is
    counted up to `counted`. `is_whole`: what is compressed in it does not go on behind it. `why` it cannot be looked
    at."""

    said: bytes | bytearray
    known: int
    goes: int
    counted: int
    is_whole: bool
    why: str = ""


Deciding = Generator[int, None, BodyPart | None]


class HoldBack(Protocol):
    """`need`: how many bytes there will be together, as far as that is known; `lets_go`: some of it goes before its
    end; `is_answered_early`: its head goes at once; `context`: bytes of what was sent that it wants to see again."""

    need: int
    lets_go: bool
    is_answered_early: bool
    context: int

    def deciding(self, content: bytearray, sent: int, counted: int, *, done: bool) -> Deciding:
        """What is to be looked at now; None: more has to come first. `sent` and `counted` are places in the content,
        which stays as it is until this has come to its end, in steps of so many bytes."""


class Whole:
    """As much together as fits; of what is longer the last OVERLAP bytes stay until more has come."""

    lets_go = is_answered_early = False
    context = 0

    def __init__(self, most: int, need: int) -> None:
        self._most, self._begins = max(most, LEAST), True
        self.need = min(need, self._most)

    def part(self, content: bytearray, sent: int, counted: int, *, done: bool) -> BodyPart | None:
        if not done and len(content) - sent < self._most:
            return None
        begins, self._begins = self._begins, False
        stays = 0 if done else OVERLAP
        return BodyPart(content, counted, len(content) - stays, len(content), begins and done)

    def deciding(self, content: bytearray, sent: int, counted: int, *, done: bool) -> Deciding:
        yield from ()
        return self.part(content, sent, counted, done=done)


class Unended:
    """What comes without a known end: it goes as soon as it can be cut. What cannot waits, up to `most` bytes; then all
    of it is looked at, and all but the last OVERLAP bytes go."""

    lets_go, is_answered_early = True, False
    context = CONTEXT

    def __init__(self, is_open: Callable[[bytes, bytes], Generator[int, None, bool]], most: int) -> None:
        self._is_open = is_open
        self._most = self.need = max(most, LEAST)
        self._come = self._spent = self._again = 0
        self._tried = 0  # bytes after what goes in which there is no place to cut

    def deciding(self, content: bytearray, sent: int, counted: int, *, done: bool) -> Deciding:
        if done:
            return BodyPart(content, counted, len(content), len(content), True)
        waits = len(content) - sent
        if waits >= self._most:
            self._tried = 0
            return BodyPart(content, counted, len(content) - OVERLAP, len(content), False)
        if waits > ALWAYS and waits < self._again and self._spent > TIMES * (self._come + waits) + MORE:
            return None
        at = yield from self._cut(content, sent)
        self._tried = waits
        if at == sent:
            self._again = waits + waits // 8
            return None
        self._come, self._tried = self._come + at - sent, len(content) - at
        known = min(counted, at)
        return BodyPart(content[:at], known, at, at - _uncounted(content, known, at), True)

    def _cut(self, content: bytearray, sent: int) -> Generator[int, None, int]:
        """The last place where it may be cut; where there is none, that of what was sent."""
        last = len(content)
        for step in STEPS:
            found = _LAST_BOUNDARY.match(content, sent + self._tried, min(last, len(content) - step))
            if found is None:
                break
            end = found.end()
            if end == last and step:
                continue
            last = end
            self._spent += min(WINDOW, end) + end - sent
            since = bytes(content[max(0, sent - ZLIB) : end])
            if not (yield from self._is_open(bytes(content[max(0, end - WINDOW) : end]), since)):
                return end
        return sent


def _uncounted(said: bytearray, since: int, end: int) -> int:
    """Bytes of it that are no text, and too few to count alone."""
    found = _BYTES.search(said[max(since, end - SHORTEST_BYTES) : end])
    size = len(found[0]) if found else 0
    return size if size < SHORTEST_BYTES else 0
