"""Heads from the lists of fields that HTTP/2 has, and back, by the same grammar as those of HTTP/1.1 (`heads`). Pure.

What could not be written in HTTP/1.1 as it stands is refused: a name or value with a line end in it, a pseudo-header
that is not one of the four, a length that is not one number. So nobody behind this finds another message in it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from pysandbox.gate.inspection.heads import (
    HOP_BY_HOP,
    MOST_FIELDS,
    TOKEN,
    BadMessage,
    Field,
    Head,
    dashed,
    fields_of,
    require_no_second_spelling,
)

NAME = re.compile(rb"(?![A-Z])[!#$%&'*+.^_`|~0-9a-z-]+")
VALUE = re.compile(rb"[\t\x20-\x7e\x80-\xff]*")
METHOD, TARGET = re.compile(TOKEN), re.compile(rb"[\x21-\x7e]+")
STATUS = re.compile(rb"[1-9][0-9]{2}")
OF_REQUESTS = frozenset((b":method", b":scheme", b":authority", b":path"))
CONNECTION = HOP_BY_HOP - {b"te", b"trailer", b"proxy-authorization", b"proxy-authenticate"}

Listed = list[tuple[bytes, bytes]]


def request_head(said: Iterable[tuple[bytes, bytes]]) -> Head:
    """As if it had been said in HTTP/1.1: the authority is the host. Raises BadMessage."""
    pseudo, fields = _apart(said)
    if not pseudo.keys() <= OF_REQUESTS or not {b":method", b":scheme", b":path"} <= pseudo.keys():
        raise BadMessage("the pseudo-headers of a request are :method, :scheme, :authority and :path")
    method, path, scheme = (pseudo[each] for each in (b":method", b":path", b":scheme"))
    if METHOD.fullmatch(method) is None or TARGET.fullmatch(path) is None or scheme != b"https":
        raise BadMessage("a request line that HTTP/1.1 could not say, or of another scheme than https")
    hosts = [value for name, _, value in fields if name == b"host"]
    if b":authority" in pseudo:
        if any(each != pseudo[b":authority"] for each in hosts) or not pseudo[b":authority"]:
            raise BadMessage(":authority and host name two hosts, or none")
        fields = [(b"host", b"host", pseudo[b":authority"]), *(each for each in fields if each[0] != b"host")]
    if any(value.lower() != b"trailers" for name, _, value in fields if name == b"te"):
        raise BadMessage("te says something other than trailers")
    require_no_second_spelling(fields)
    return Head((method, path), 1, fields)


def response_head(said: Iterable[tuple[bytes, bytes]]) -> Head:
    """Raises BadMessage."""
    pseudo, fields = _apart(said)
    status = pseudo.get(b":status", b"")
    if pseudo.keys() != {b":status"} or STATUS.fullmatch(status) is None or status == b"101":
        raise BadMessage("the pseudo-header of a response is :status")
    return Head((status, b""), 1, fields)


def trailer_lines(said: Iterable[tuple[bytes, bytes]]) -> bytes:
    """The lines that HTTP/1.1 would have. Raises BadMessage."""
    pseudo, fields = _apart(said)
    if pseudo or any(dashed(name) in (b"host", b"content-length") for name, _, _ in fields):
        raise BadMessage("a trailer that would change the message")
    return b"".join([b"%s: %s\r\n" % (name, value) for name, _, value in fields])


def listed_lines(lines: bytes) -> Listed:
    """Raises BadMessage."""
    return [(name, value) for name, _, value in fields_of(lines)]


def listed(fields: Iterable[Field], but: frozenset[bytes] = frozenset()) -> Listed:
    """As they are sent."""
    return [(name, value) for name, _, value in fields if name not in but]


def _apart(said: Iterable[tuple[bytes, bytes]]) -> tuple[dict[bytes, bytes], list[Field]]:
    pseudo: dict[bytes, bytes] = {}
    fields: list[Field] = []
    for name, value in said:
        if name[:1] == b":":
            if name in pseudo or fields:
                raise BadMessage("a pseudo-header twice, or after the fields")
            pseudo[name] = value
            continue
        if NAME.fullmatch(name) is None or VALUE.fullmatch(value) is None:
            raise BadMessage("a field that HTTP/1.1 could not say")
        if name in CONNECTION:
            raise BadMessage("a field about the connection, which HTTP/2 has none of")
        fields.append((bytes(name), bytes(name), bytes(value).strip(b" \t")))
    if len(fields) > MOST_FIELDS:
        raise BadMessage(f"more than {MOST_FIELDS} fields")
    return pseudo, fields
