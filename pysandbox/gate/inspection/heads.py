"""The heads of HTTP/1.1 messages, by a grammar that is stricter than any server's (RFC 9112). Pure, on bytes.

What is not exactly a head is refused, never repaired: no bare LF, no folded line, no space before a colon, no NUL, no
8-bit letter in a name. So two programs cannot read two different messages in what is passed on. `differential` tests
hold it against two other parsers: what both sides accept is framed alike.
"""

from __future__ import annotations

import re

from pysandbox.shapes import NamedTuple

LONGEST_HEAD = 65536
MOST_FIELDS = 200
TOKEN = rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+"
REQUEST_LINE = re.compile(rb"(%s) ([\x21-\x7e]+) HTTP/1\.([01])\r\n" % TOKEN)
STATUS_LINE = re.compile(rb"HTTP/1\.([01]) ([1-9][0-9]{2})(?: ([\t\x20-\x7e\x80-\xff]*))?\r\n")
FIELDS = re.compile(rb"(?:%s:[\t\x20-\x7e\x80-\xff]*\r\n)*" % TOKEN)
ONE_FIELD = re.compile(rb"(%s):([\t\x20-\x7e\x80-\xff]*)\r\n" % TOKEN)
LENGTH = re.compile(rb"[0-9]{1,18}")
HOP_BY_HOP = frozenset((
    b"connection", b"keep-alive", b"proxy-connection", b"proxy-authorization", b"proxy-authenticate", b"te", b"trailer",
    b"transfer-encoding", b"upgrade", b"http2-settings",
))  # fmt: skip
FRAMING = frozenset((b"content-length", b"host", b"transfer-encoding"))
READ_AS_ANOTHER = FRAMING | HOP_BY_HOP | {b"content-type", b"content-encoding"}

Field = tuple[bytes, bytes, bytes]  # the name in lower case, as it was written, the value


class BadMessage(Exception):
    """What was said is no message, or one with two readings."""


class Head(NamedTuple):
    """`first`: method and target of a request, status and reason of a response; `minor` of HTTP/1.x."""

    first: tuple[bytes, bytes]
    minor: int
    fields: list[Field]

    def values(self, name: bytes) -> list[bytes]:
        return [value for lower, _, value in self.fields if lower == name]

    def tokens(self, name: bytes) -> list[bytes]:
        said = self.values(name)
        return [each.strip().lower() for value in said for each in value.split(b",") if each.strip()] if said else said

    @property
    def closes(self) -> bool:
        """Whether the connection ends after it, as far as its sender is concerned."""
        said = self.tokens(b"connection")
        return b"close" in said or (self.minor == 0 and b"keep-alive" not in said)


def take_request(buffer: bytearray) -> Head | None:
    """Takes the next request's head out of the buffer; None while it is not whole. Raises BadMessage."""
    while buffer[:2] == b"\r\n":  # RFC 9112, 2.2: an empty line before a request is skipped
        del buffer[:2]
    taken = _take(buffer, REQUEST_LINE)
    if taken is None:
        return None
    line, fields = taken
    require_no_second_spelling(fields)
    return Head((line[1], line[2]), int(line[3]), fields)


def take_response(buffer: bytearray) -> Head | None:
    """Takes the next response's head out of the buffer; None while it is not whole. Raises BadMessage."""
    taken = _take(buffer, STATUS_LINE)
    if taken is None:
        return None
    line, fields = taken
    return Head((line[2], line[3] or b""), int(line[1]), fields)


def _take(buffer: bytearray, first: re.Pattern[bytes]) -> tuple[re.Match[bytes], list[Field]] | None:
    end = buffer.find(b"\r\n\r\n", 0, LONGEST_HEAD + 4)
    if end < 0:
        if len(buffer) > LONGEST_HEAD:
            raise BadMessage(f"a head of more than {LONGEST_HEAD} bytes")
        newline = buffer.find(b"\n")
        if newline >= 0 and first.match(buffer) is None:
            raise BadMessage("the first line is none of HTTP/1.1")
        return None
    head = bytes(buffer[: end + 2])
    line = first.match(head)
    if line is None:
        raise BadMessage("the first line is none of HTTP/1.1")
    fields = fields_of(head[line.end() :])
    del buffer[: end + 4]
    return line, fields


def fields_of(lines: bytes) -> list[Field]:
    """The fields of a head, or of a trailer. Raises BadMessage."""
    if FIELDS.fullmatch(lines) is None:
        raise BadMessage("a line that is no field of HTTP/1.1")
    found = [(name.lower(), name, value.strip(b" \t")) for name, value in ONE_FIELD.findall(lines)]
    if len(found) > MOST_FIELDS:
        raise BadMessage(f"more than {MOST_FIELDS} fields")
    return found


def dashed(name: bytes) -> bytes:
    """As servers of the CGI kind read it (RFC 3875, 4.1.18): to them `_` and `-` are one letter."""
    return name.replace(b"_", b"-")


def require_no_second_spelling(fields: list[Field]) -> None:
    """The names of what frames or types a message have one each. Raises BadMessage."""
    if any(b"_" in name and dashed(name) in READ_AS_ANOTHER for name, _, _ in fields):
        raise BadMessage("a field of the message's framing, spelt with an underscore")


def content_length(head: Head) -> int | None:
    """None where it is not said. Raises BadMessage for anything but one number, said once."""
    said = head.values(b"content-length")
    if not said:
        return None
    if len(said) > 1 or LENGTH.fullmatch(said[0]) is None:
        raise BadMessage("Content-Length is not one number")
    return int(said[0])


def is_chunked(head: Head) -> bool:
    """Raises BadMessage for any other transfer encoding: nobody here could tell where the message ends."""
    said = head.values(b"transfer-encoding")
    if not said:
        return False
    if len(said) > 1 or said[0].lower() != b"chunked" or head.minor == 0:
        raise BadMessage("a Transfer-Encoding other than chunked")
    return True


def end_to_end(head: Head, but: frozenset[bytes] = frozenset()) -> list[Field]:
    """The fields that are not for the next hop alone (RFC 9110, 7.6.1), without those of `but`. Connection may not name
    the framing. Raises BadMessage."""
    named = head.tokens(b"connection")
    if not FRAMING.isdisjoint(named):
        raise BadMessage("Connection names a field that frames the message")
    dropped = HOP_BY_HOP.union(named, but)
    return [each for each in head.fields if each[0] not in dropped]


def written(first: bytes, fields: list[Field]) -> bytes:
    """A head as it is sent."""
    return b"%s\r\n%s\r\n" % (first, b"".join([b"%s: %s\r\n" % (name, value) for _, name, value in fields]))
