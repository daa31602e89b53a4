"""The places of a request in which a credential may stand, each by a name that can be told: of what a stranger wrote,
only what is no credential itself. Pure.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Iterable, Iterator
from urllib.parse import unquote_to_bytes

from pysandbox.shapes import Any

APART = b" \x01\n"  # between two places: what ends one and begins the next is nothing together
MOST_STRINGS = 2000  # of a document that are looked at one by one
LONGEST_JSON = 1 << 20
USUAL = frozenset((
    b"host", b"accept", b"accept-encoding", b"accept-language", b"connection", b"content-length", b"content-type",
    b"expect", b"user-agent", b"authorization", b"transfer-encoding",
))  # fmt: skip

Place = tuple[str, bytes]
Fields = list[tuple[bytes, bytes]]


def places(method: bytes, host: bytes, path: bytes, fields: Fields) -> Iterator[Place]:
    """Each place by itself."""
    before, _, query = path.partition(b"?")
    yield "the method", method
    yield "the authority", host
    yield "the path", before
    for number, pair in enumerate(query.split(b"&") if query else (), 1):
        yield f"query value {number}", pair
    for number, (name, value) in enumerate(fields, 1):
        yield f"the name of field {number}", name
        yield f"field {name.decode('ascii')}", name + b": " + value
        if plain := basic(name, value):
            yield "Basic credentials", plain


def in_parts(said: Iterable[bytes], most: int) -> Iterator[bytes]:
    """Several together, up to so many bytes; what is longer alone."""
    part: list[bytes] = []
    for each in said:
        if part and sum(map(len, part)) + len(each) > most:
            yield APART.join(part)
            part = []
        part.append(each)
    yield APART.join(part)


def pieced(path: bytes, fields: Fields) -> list[bytes]:
    """What was said in pieces, put together: segments of the path, values of the query, of cookies, and of fields."""
    before, _, query = path.partition(b"?")
    values = (unquote_to_bytes(pair.partition(b"=")[2]) for pair in query.split(b"&"))
    jars = [value for name, value in fields if name.lower() == b"cookie"]
    return [
        before.replace(b"/", b""), b"".join(values),
        b"".join(each.partition(b"=")[2].strip() for jar in jars for each in jar.split(b";")),
        b"".join(value for name, value in fields if name.lower() not in USUAL),
        *(plain.replace(b":", b"", 1) for name, value in fields if (plain := basic(name, value))),
    ]  # fmt: skip


def basic(name: bytes, value: bytes) -> bytes:
    """What HTTP's Basic has encoded; nothing of any other field."""
    if value[:6].lower() != b"basic " or name.lower() not in (b"authorization", b"proxy-authorization"):
        return b""
    try:
        return base64.b64decode(value[6:].strip() + b"===")
    except (binascii.Error, ValueError):
        return b""


def strings(said: bytes | bytearray) -> Iterator[tuple[str, str]]:
    """The texts of a JSON document, each with the way to it by numbers and plain names; none of what is no JSON."""
    if len(said) > LONGEST_JSON or said[:64].lstrip()[:1] not in (b"{", b"["):
        return
    try:
        waiting: list[tuple[str, Any]] = [("$", json.loads(said))]
    except (ValueError, RecursionError):
        return
    for _ in range(MOST_STRINGS):
        if not waiting:
            return
        way, value = waiting.pop()
        if isinstance(value, str):
            yield way, value
        elif isinstance(value, list):
            waiting += reversed([(f"{way}[{at}]", each) for at, each in enumerate(value)])
        elif isinstance(value, dict):
            waiting += reversed([(f"{way}.{_name(key)}", each) for key, each in value.items()])


def _name(key: str) -> str:
    """A key that is short and in letters; no credential is."""
    return key if len(key) <= 15 and key.replace("_", "").isalnum() and key.isascii() else "*"
