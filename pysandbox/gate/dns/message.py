"""DNS messages (RFC 1035, EDNS0 by RFC 6891) as bytes, and what they say. Sans-I/O, small and strict.

Both directions: what a cage asks and is answered, what a name server is asked and answers. Neither peer is trusted. A
question is one, of class IN, spelled without compression; in an answer a compression pointer leads strictly backwards,
so that reading always ends, and a name has at most 255 bytes however it is compressed.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

from pysandbox.shapes import NamedTuple

A, CNAME, PTR, AAAA, OPT = 1, 5, 12, 28, 41
IN = 1
NOERROR, FORMERR, SERVFAIL, NXDOMAIN, NOTIMP, REFUSED, BADVERS = 0, 1, 2, 3, 4, 5, 16

RESPONSE, TRUNCATED, RECURSION_DESIRED, RECURSION_AVAILABLE = 0x8000, 0x0200, 0x0100, 0x0080
OPCODE = 0x7800
LONGEST_NAME = 255  # bytes on the wire
UDP_SIZE = 1232  # what we say that we take, and more than we ever send
RECORDS_READ = 128  # of one answer
CHAIN = 16  # CNAMEs that are followed

_HEADER = struct.Struct("!6H")
_QUESTION = struct.Struct("!2H")
_RECORD = struct.Struct("!2HIH")


class Malformed(ValueError):
    """Not a message that is answered. `number` is the message's id, where it has one."""

    def __init__(self, why: str, number: int | None = None, code: int = FORMERR) -> None:
        super().__init__(why)
        self.number, self.code = number, code


class Question(NamedTuple):
    """`raw` is the question as it was asked, letter case included: an answer repeats it."""

    number: int
    recursion: bool
    labels: tuple[bytes, ...]
    kind: int
    raw: bytes
    edns: bool


class ResourceRecord(NamedTuple):
    kind: int
    ttl: int
    data: bytes


class Reply(NamedTuple):
    """What a name server answered about a name, after its aliases were followed."""

    code: int
    truncated: bool
    data: tuple[bytes, ...]
    ttl: int  # the least of the chain


# ---- questions of a cage --------------------------------------------------------------------------------------------


def read_question(message: bytes) -> Question:
    """Raises Malformed."""
    if len(message) < _HEADER.size:
        raise Malformed("shorter than a header")
    number, flags, questions, answers, authorities, additional = _HEADER.unpack_from(message)
    if flags & RESPONSE:
        raise Malformed("an answer, not a question")  # never answered: two servers could go on for ever
    if flags & OPCODE:
        raise Malformed("not a query", number, NOTIMP)
    if (questions, answers, authorities) != (1, 0, 0) or additional > 2:
        raise Malformed("not one question", number)
    try:
        labels, end = _read_name(message, _HEADER.size, compressed=False)
        kind, of = _QUESTION.unpack_from(message, end)
        end += _QUESTION.size
        edns = _read_options(message, end, additional, number)
    except (struct.error, IndexError):
        raise Malformed("cut off", number) from None
    except Malformed as error:
        raise Malformed(str(error), number, error.code) from None
    if of != IN:
        raise Malformed("not of class IN", number, REFUSED)
    return Question(number, bool(flags & RECURSION_DESIRED), labels, kind, message[_HEADER.size : end], edns)


def _read_options(message: bytes, place: int, count: int, number: int) -> bool:
    """Whether there is an OPT record; anything else is refused."""
    for _ in range(count):
        labels, place = _read_name(message, place, compressed=False)
        kind, _, ttl, size = _RECORD.unpack_from(message, place)
        place += _RECORD.size + size
        if kind != OPT or labels or count != 1:
            raise Malformed("more than a question")
        if ttl >> 16 & 0xFF:
            raise Malformed("another version of EDNS", number, BADVERS)
    if place != len(message):
        raise Malformed("of another length than it says")
    return count == 1


def answer(question: Question, code: int, records: Sequence[ResourceRecord] = ()) -> bytes:
    """The bytes of an answer to a cage. Every record is about the name that was asked for."""
    flags = RESPONSE | RECURSION_AVAILABLE | (RECURSION_DESIRED if question.recursion else 0) | code & 0xF
    header = _HEADER.pack(question.number, flags, 1, len(records), 0, int(question.edns))
    body = b"".join(b"\xc0\x0c" + _RECORD.pack(each.kind, IN, each.ttl, len(each.data)) + each.data for each in records)
    return header + question.raw + body + (_options(code) if question.edns else b"")


def refusal(malformed: Malformed) -> bytes | None:
    """The answer to a malformed message; None where it has no id to answer to."""
    if malformed.number is None:
        return None
    extended = malformed.code > 0xF
    header = _HEADER.pack(malformed.number, RESPONSE | malformed.code & 0xF, 0, 0, 0, int(extended))
    return header + (_options(malformed.code) if extended else b"")


def _options(code: int) -> bytes:
    return b"\0" + _RECORD.pack(OPT, UDP_SIZE, code >> 4 << 24, 0)


# ---- questions to a name server -------------------------------------------------------------------------------------


def ask(number: int, name: str, kind: int) -> bytes:
    """The bytes of a question to a name server, without EDNS: what does not fit into 512 bytes comes truncated, and is
    asked for again over TCP."""
    return _HEADER.pack(number, RECURSION_DESIRED, 1, 0, 0, 0) + written(name) + _QUESTION.pack(kind, IN)


def written(name: str) -> bytes:
    """A canonical name as its bytes on the wire."""
    labels = name.encode("ascii").split(b".")
    return b"".join(bytes((len(each),)) + each for each in labels) + b"\0"


def read_reply(message: bytes, number: int, name: str, kind: int) -> Reply:
    """Raises Malformed for what is not an answer to exactly this question."""
    try:
        return _read_reply(message, number, tuple(name.encode("ascii").split(b".")), kind)
    except (struct.error, IndexError):
        raise Malformed("cut off") from None


def _read_reply(message: bytes, number: int, name: tuple[bytes, ...], kind: int) -> Reply:
    theirs, flags, questions, answers, *_ = _HEADER.unpack_from(message)
    if theirs != number or not flags & RESPONSE or flags & OPCODE or questions != 1:
        raise Malformed("an answer to something else")
    asked, place = _read_name(message, _HEADER.size)
    if _lower(asked) != name or _QUESTION.unpack_from(message, place) != (kind, IN):
        raise Malformed("an answer to another question")
    code = flags & 0xF
    if flags & TRUNCATED or code:
        return Reply(code, bool(flags & TRUNCATED), (), 0)
    aliases, found = _read_records(message, place + _QUESTION.size, min(answers, RECORDS_READ), kind)
    return _at_the_end(name, aliases, found)


Owned = dict[tuple[bytes, ...], list[tuple[int, bytes]]]
Aliases = dict[tuple[bytes, ...], tuple[int, tuple[bytes, ...]]]


def _read_records(message: bytes, place: int, count: int, kind: int) -> tuple[Aliases, Owned]:
    aliases: Aliases = {}
    found: Owned = {}
    for _ in range(count):
        labels, place = _read_name(message, place)
        this, of, ttl, size = _RECORD.unpack_from(message, place)
        place += _RECORD.size
        data, ttl = message[place : place + size], ttl if ttl < 1 << 31 else 0  # RFC 2181, 8
        if len(data) != size:
            raise Malformed("cut off")
        if (this, of) == (CNAME, IN):
            aliases.setdefault(_lower(labels), (ttl, _lower(_read_name(message, place)[0])))
        elif (this, of) == (kind, IN):
            found.setdefault(_lower(labels), []).append((ttl, data))
        place += size
    return aliases, found


def _at_the_end(name: tuple[bytes, ...], aliases: Aliases, found: Owned) -> Reply:
    least = (1 << 31) - 1
    for _ in range(CHAIN):
        if name in found or name not in aliases:
            break
        ttl, name = aliases[name]
        least = min(least, ttl)
    mine = found.get(name, [])
    return Reply(NOERROR, False, tuple(data for _, data in mine), min([least, *(ttl for ttl, _ in mine)]))


# ---- names ----------------------------------------------------------------------------------------------------------


def _read_name(message: bytes, place: int, *, compressed: bool = True) -> tuple[tuple[bytes, ...], int]:
    """The labels and the place behind them. Raises Malformed, IndexError."""
    labels: list[bytes] = []
    end, before, length = 0, place, 1
    while size := message[place]:
        if size >= 0xC0 and compressed:
            end = end or place + 2
            place = (size & 0x3F) << 8 | message[place + 1]
            if place >= before:
                raise Malformed("a pointer that does not lead back")
            before = place
            continue
        length += size + 1
        if size > 63 or length > LONGEST_NAME:
            raise Malformed("not a name")
        label = message[place + 1 : place + 1 + size]
        if len(label) != size:
            raise Malformed("cut off")
        labels.append(label)
        place += size + 1
    return tuple(labels), end or place + 1


def _lower(labels: tuple[bytes, ...]) -> tuple[bytes, ...]:
    return tuple(each.lower() for each in labels)
