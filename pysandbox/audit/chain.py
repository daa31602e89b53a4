"""One record as one line, sealed: its hash covers every byte of the record, the hash of the one before it among them.

    {"seq":7,"time":"2026-11-22T02:21:19.000001Z","pid":4711,"type":"subagent.exit","data":{...},"prev":"...","hash":"..."}

`hash` is the SHA-256 of the line up to `,"hash"`. A changed, dropped, swapped or inserted record breaks the chain at
that place; a chain that ends too early is found by the head file beside it (files.py). What the chain cannot do: stop
someone who may write the directory from writing all of it anew. Keep the hash of the last record elsewhere against
that (`pysandbox audit verify --expect HASH`). Pure.
"""

from __future__ import annotations

from pysandbox.audit.canonical import canonical
from pysandbox.sha256 import sha256

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from pysandbox.shapes import Self


class Link(tuple[int, str]):
    """What a record follows: the number and the hash of the one before. A NamedTuple, without its imports."""

    __slots__ = ()
    _fields = ("seq", "hash")  # by which dataclasses.asdict knows one

    def __new__(cls, seq: int, hash: str) -> Self:
        return tuple.__new__(cls, (seq, hash))

    @property
    def seq(self) -> int:
        return self[0]

    @property
    def hash(self) -> str:
        return self[1]


START = Link(0, "0" * 64)  # what the first record of a stream follows
SEAL = b',"hash":"'
HEX = b"0123456789abcdef"
LONGEST = 20  # digits of a number; Python refuses to read one of thousands
_SEAL_SIZE = len(SEAL) + 64 + 2  # how long a line's end is, from SEAL


def seal(after: Link, time: str, pid: int, type: str, data: Mapping[str, object]) -> tuple[bytes, Link]:
    """The line of the record that follows `after`, with its newline, and what the next one follows."""
    seq = after.seq + 1
    body = (
        f'{{"seq":{seq},"time":"{time}","pid":{pid},"type":{canonical(type)}'
        f',"data":{canonical(data)},"prev":"{after.hash}"'
    ).encode("ascii")
    digest = sha256(body).hexdigest()
    return body + SEAL + digest.encode() + b'"}\n', Link(seq, digest)


def hash_of(line: bytes) -> str | None:
    """The hash that a line (without its newline) carries, None when it is not the hash of that line."""
    body, end = line[:-_SEAL_SIZE], line[-_SEAL_SIZE:]
    if not end.startswith(SEAL) or not end.endswith(b'"}'):
        return None
    found = end[len(SEAL) : -2]
    return found.decode() if sha256(body).hexdigest().encode() == found else None


def link_of(line: bytes) -> Link | None:
    """What follows on a sealed line, None for any other text."""
    digest = hash_of(line)
    number = line[len(b'{"seq":') : line.find(b",")]
    return Link(int(number), digest) if digest is not None and number.isdigit() and len(number) < LONGEST else None
