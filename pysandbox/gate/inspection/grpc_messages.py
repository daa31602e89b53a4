"""The messages of gRPC in a request's body, each of which goes when it is whole and was looked at: a flag, four bytes
of its length, and what it says, compressed as the head told where the flag is set.

A credential that is cut in two messages is looked for where they meet: in what they say one after the other, and in
what the last field of each says, since bytes of Protocol Buffers stand between two texts. A message at whose end one
may begin waits for the next. What is not framed so, or is longer than is looked at as a whole, is held as any other
body is. A message of a few bytes may say eight MiB: what is undone in one turn is bounded together, it is not kept
while it waits, and it is not undone again for each one that comes behind it. It is undone in steps, between which
others have their turn.
"""

from __future__ import annotations

from collections.abc import Callable, Generator

from pysandbox._native import ffi, lib
from pysandbox.gate.inspection.codings import IDENTITY, UnreadableCoding, plain
from pysandbox.gate.inspection.holding import LEAST, BodyPart, Deciding, Whole
from pysandbox.gate.inspection.places import APART
from pysandbox.shapes import NamedTuple

KINDS = (b"application/grpc", b"application/grpc-web")
HEAD = 5
JOINED = 1024  # bytes on both sides of where two messages meet
END = 4096  # bytes of the last ones that are asked whether something has begun in them
AT_ONCE = 256  # messages that are looked at together
TRIES = 8  # of the last ones, one of which is looked for after which nothing has begun


def is_grpc(kinds: list[bytes]) -> bool:
    """Whether a Content-Type is of gRPC: not of its text for the web, which is base64."""
    return len(kinds) == 1 and kinds[0].partition(b";")[0].partition(b"+")[0].strip().lower() in KINDS


class WholeMessage(NamedTuple):
    """One that waits: how many bytes it came in and how many it says, which are not kept; how these end, and those of
    its last field."""

    size: int
    says: int
    end: bytes
    field: bytes


class GrpcMessages:
    lets_go = is_answered_early = True
    context = 0

    def __init__(self, is_open: Callable[[bytes, bytes], bool], most: int, codings: list[bytes]) -> None:
        self._is_open, self._codings = is_open, [each for each in codings if each != IDENTITY]
        # As much as may wait together: a message that is whole waits where something may have begun at its end.
        self._most = self.need = max(most, LEAST)
        self._ends = (b"", b"")  # of what they said, and of what their last fields did
        self._waiting: list[WholeMessage] = []
        self._other: Whole | None = None

    def deciding(self, content: bytearray, sent: int, counted: int, *, done: bool) -> Deciding:
        if self._other is None:
            self._look_ahead(content, sent)
        if self._other is not None:
            return self._other.part(content, sent, counted, done=done)
        try:
            at, is_all = yield from self._take_whole(content, sent)
        except UnreadableCoding as error:
            return self._given_up(content, str(error))
        if done and is_all:
            return (yield from self._looked_at(content, sent, len(self._waiting), bytes(content[at:])))
        count = self._closed()
        if count:
            return (yield from self._looked_at(content, sent, count))
        if not is_all or len(content) >= self._most:
            return self._given_up(content, "more of it waits for its end than is looked at as a whole")
        return None

    def _looked_at(self, content: bytearray, sent: int, count: int, *rest: bytes) -> Generator[int, None, BodyPart]:
        """The first of what waits, and what is no whole message."""
        messages, goes = [], sent
        for each in self._waiting[:count]:
            messages.append((yield from self._said(content, goes, goes + each.size, self._most)))
            goes += each.size
        messages += rest
        goes += sum(map(len, rest))
        del self._waiting[:count]
        fields = [last_field(each) for each in messages]
        seams = dict.fromkeys(map(_seam, self._ends, (messages, fields)))
        self._ends = _end(self._ends[0], messages), _end(self._ends[1], fields)
        before = APART.join((*seams, b""))
        return BodyPart(before + APART.join(messages), len(before), goes, goes, True)

    def _given_up(self, content: bytearray, why: str) -> BodyPart:
        self._other, self._waiting = Whole(self._most, self._most), []
        return BodyPart(b"", 0, len(content), len(content), True, why)

    def _closed(self) -> int:
        """How many of them there are before a cut that nothing can go on behind; 0 where none is found."""
        messages, fields = [each.end for each in self._waiting], [each.field for each in self._waiting]
        for count in range(len(messages), max(0, len(messages) - TRIES), -1):
            ends = dict.fromkeys((_end(self._ends[0], messages[:count]), _end(self._ends[1], fields[:count])))
            if not any(self._is_open(end, b"") for end in ends):
                return count
        return 0

    def _look_ahead(self, content: bytearray, sent: int) -> None:
        """Whether what comes next is no message that can be looked at as a whole. While others wait, what comes behind
        them says nothing: they are looked at as messages."""
        if self._waiting or len(content) == sent:
            return
        flag, length = content[sent], int.from_bytes(content[sent + 1 : sent + HEAD], "big")
        if flag > 1 or (len(content) - sent >= HEAD and not flag and length > self._most):
            self._other = Whole(self._most, self._most)

    def _take_whole(self, content: bytearray, sent: int) -> Generator[int, None, tuple[int, bool]]:
        """Takes what has become whole behind what waits, as long as all of it says no more than is looked at together.
        Returns where that ends, and whether it was all. Raises UnreadableCoding."""
        at = sent + sum(each.size for each in self._waiting)
        while (end := self._end_of_next(content, at)) > at:
            if len(self._waiting) >= AT_ONCE:
                return at, False
            left = self._most - sum(each.says for each in self._waiting)
            try:
                said = yield from self._said(content, at, end, max(0, left))
            except UnreadableCoding:
                if self._waiting:  # it may be too much beside them alone
                    return at, False
                raise
            self._waiting.append(WholeMessage(end - at, len(said), said[-END:], last_field(said)[-END:]))
            at = end
        return at, True

    def _end_of_next(self, content: bytearray, at: int) -> int:
        """Where the message ends that begins there; `at` while it is not whole. Raises UnreadableCoding."""
        if len(content) - at < HEAD or content[at] > 1:
            return at
        end = at + HEAD + int.from_bytes(content[at + 1 : at + HEAD], "big")
        if content[at] and end - at > self._most:
            raise UnreadableCoding("a message is compressed, and more than is looked at as a whole")
        return end if end <= len(content) else at

    def _said(self, content: bytearray, at: int, end: int, most: int) -> Generator[int, None, bytes]:
        """What a message says, of which so much may be undone. Raises UnreadableCoding."""
        said = bytes(content[at + HEAD : end])
        if not content[at]:
            return said
        if len(self._codings) != 1:  # gRPC knows no encodings inside each other
            raise UnreadableCoding("a message is compressed, in no way that may be undone")
        return bytes((yield from plain(said, self._codings, most)))


def _end(before: bytes, messages: list[bytes]) -> bytes:
    return (before + b"".join(each[-END:] for each in messages))[-END:]


def _seam(before: bytes, messages: list[bytes]) -> bytes:
    """Where they meet each other, and what was before them."""
    pieces = [before[-JOINED:]]
    for each in messages:
        pieces += [each] if len(each) <= JOINED else [each[:JOINED], APART, each[-JOINED:]]
    return b"".join(pieces)


def last_field(said: bytes) -> bytes:
    """What the last field of a message says, and the last of that if it is one, too; all of what is none."""
    return said[lib.psb_last_field(ffi.from_buffer(said), len(said)) :]
