"""The messages of gRPC in a request's body, each of which goes when it is whole and was looked at: a flag, four bytes
of its length, and what it says, compressed as the head told where the flag is set.

A credential that is cut in two messages is looked for where they meet: in what they say one after the other, and in
what the last field of each says, since bytes of Protocol Buffers stand between two texts. A message at whose end one
may begin waits for the next. What is not framed so, or is longer than is looked at as a whole, is held as any other
body is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from pysandbox.gate.inspection.codings import IDENTITY, UnreadableCoding, plain
from pysandbox.gate.inspection.holding import LEAST, BodyPart, Whole
from pysandbox.gate.inspection.places import APART

KINDS = (b"application/grpc", b"application/grpc-web")
HEAD = 5
JOINED = 1024  # bytes on both sides of where two messages meet
END = 4096  # bytes of the last ones that are asked whether something has begun in them
AT_ONCE = 256  # messages that are looked at together
TRIES = 8  # of the last ones, one of which is looked for after which nothing has begun
LENGTH_DELIMITED, SIZES = 2, {1: 8, 5: 4}  # wire types
DEEPEST = 8  # messages inside each other, of which the last field is looked for


def is_grpc(kinds: list[bytes]) -> bool:
    """Whether a Content-Type is of gRPC: not of its text for the web, which is base64."""
    return len(kinds) == 1 and kinds[0].partition(b";")[0].partition(b"+")[0].strip().lower() in KINDS


class GrpcMessages:
    lets_go = is_answered_early = True
    context = 0

    def __init__(self, is_open: Callable[[bytes, bytes], bool], most: int, codings: list[bytes]) -> None:
        self._is_open, self._codings = is_open, [each for each in codings if each != IDENTITY]
        self._most = self.need = max(most, LEAST)
        self._ends = (b"", b"")  # of what they said, and of what their last fields did
        self._other: Whole | None = None

    def part(self, content: bytearray, sent: int, counted: int, *, done: bool) -> BodyPart | None:
        if self._other is None:
            self._look_ahead(content)
        if self._other is not None:
            return self._other.part(content, sent, counted, done=done)
        messages: list[bytes] = []
        ends = [sent]
        try:
            for message, end in self._messages(content, sent):
                messages.append(message)
                ends.append(end)
        except UnreadableCoding as error:
            return self._given_up(content, str(error))
        if done and len(messages) < AT_ONCE:
            return self._looked_at([*messages, bytes(content[ends[-1] :])], len(content))
        count = self._closed(messages)
        if count:
            return self._looked_at(messages[:count], ends[count])
        if len(messages) == AT_ONCE or len(content) >= self._most:
            return self._given_up(content, "more of it waits for its end than is looked at as a whole")
        return None

    def _looked_at(self, messages: list[bytes], goes: int) -> BodyPart:
        fields = [last_field(each) for each in messages]
        seams = dict.fromkeys(map(_seam, self._ends, (messages, fields)))
        self._ends = _end(self._ends[0], messages), _end(self._ends[1], fields)
        before = APART.join((*seams, b""))
        return BodyPart(before + APART.join(messages), len(before), goes, goes, True)

    def _given_up(self, content: bytearray, why: str) -> BodyPart:
        self._other, self.need = Whole(self._most, self._most), self._most
        return BodyPart(b"", 0, len(content), len(content), True, why)

    def _closed(self, messages: list[bytes]) -> int:
        """How many of them there are before a cut that nothing can go on behind; 0 where none is found."""
        fields = [last_field(each) for each in messages]
        for count in range(len(messages), max(0, len(messages) - TRIES), -1):
            ends = dict.fromkeys((_end(self._ends[0], messages[:count]), _end(self._ends[1], fields[:count])))
            if not any(self._is_open(end, b"") for end in ends):
                return count
        return 0

    def _look_ahead(self, content: bytearray) -> None:
        """Whether what comes next is a message, and how long it is."""
        flag, length = content[0] if content else 0, int.from_bytes(content[1:HEAD], "big")
        if flag > 1 or (len(content) >= HEAD and not flag and length > self._most):
            self._other, self.need = Whole(self._most, self._most), self._most
        elif len(content) >= HEAD:
            self.need = min(HEAD + length, self._most)

    def _messages(self, content: bytearray, at: int) -> Iterator[tuple[bytes, int]]:
        """Each whole one, and where it ends. Raises UnreadableCoding."""
        for _ in range(AT_ONCE):
            if len(content) - at < HEAD or content[at] > 1:
                return
            end = at + HEAD + int.from_bytes(content[at + 1 : at + HEAD], "big")
            if content[at] and end - at > self._most:
                raise UnreadableCoding("a message is compressed, and more than is looked at as a whole")
            if end > len(content):
                return
            said = bytes(content[at + HEAD : end])
            if content[at]:
                if not self._codings:
                    raise UnreadableCoding("a message is compressed, in no way that may be undone")
                said = bytes(plain(said, self._codings, self._most))
            yield said, end
            at = end


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
    for _ in range(DEEPEST):
        inner = _last_of(said)
        if not inner:
            break
        said = inner
    return said


def _last_of(said: bytes) -> bytes:
    at = 0
    while at < len(said):
        tag, at = _number(said, at)
        kind = tag & 7
        if kind == LENGTH_DELIMITED:
            size, at = _number(said, at)
            if at + size == len(said):
                return said[at:]
            at += size
        elif kind == 0:
            _, at = _number(said, at)
        elif kind in SIZES:
            at += SIZES[kind]
        else:
            return b""
        if tag < 8:
            return b""
    return b""


def _number(said: bytes, at: int) -> tuple[int, int]:
    """A varint, and where it ends: beyond the message where there is none."""
    number = 0
    for shift in range(0, 64, 7):
        if at >= len(said):
            break
        number |= (said[at] & 0x7F) << shift
        at += 1
        if said[at - 1] < 0x80:
            return number, at
    return 0, len(said) + 1
