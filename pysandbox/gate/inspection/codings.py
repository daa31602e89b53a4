"""What a request's body says once its Content-Encoding is undone. What cannot be undone to its last byte is refused: a
server may read what nobody here has. Pure.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable

from pysandbox.dlp import libraries

IDENTITY = b"identity"
MOST_CODINGS = 4
MOST_MEMBERS = 64  # of one gzip file


class UnreadableCoding(Exception):
    """A body that cannot be decoded; says why."""


def plain(said: bytes | bytearray, codings: list[bytes], most: int) -> bytes | bytearray:
    """Without them; at most so many bytes. Raises UnreadableCoding."""
    applied = [each for each in codings if each != IDENTITY]
    if len(applied) > MOST_CODINGS:
        raise UnreadableCoding("too many encodings inside each other")
    for coding in reversed(applied):
        undo = CODINGS.get(coding)
        if undo is None:
            raise UnreadableCoding("its Content-Encoding is not known here: gzip, deflate, br and zstd are")
        said = undo(said, most)
    return said


def _ungzipped(said: bytes | bytearray, most: int) -> bytes:
    """All members, and nothing after them."""
    pieces: list[bytes] = []
    while said:
        if len(pieces) >= MOST_MEMBERS:
            raise UnreadableCoding("it is compressed in too many parts")
        piece, said = _stream(said, 31, most)
        most -= len(piece)
        pieces.append(piece)
    if not pieces:
        raise UnreadableCoding("it ends early")
    return b"".join(pieces)


def _inflated(said: bytes | bytearray, most: int) -> bytes:
    """zlib's format; or what it wraps alone, as some send it."""
    for form in (15, -15):
        try:
            plain, rest = _stream(said, form, most)
        except zlib.error:
            continue
        if rest:
            raise UnreadableCoding("something follows what is compressed")
        return plain
    raise UnreadableCoding("it is not compressed as it says")


def _stream(said: bytes | bytearray, form: int, most: int) -> tuple[bytes, bytes]:
    """One stream, and what follows it. Raises UnreadableCoding; zlib.error for what is none."""
    stream = zlib.decompressobj(form)
    try:
        plain = stream.decompress(said, most + 1)
    except zlib.error:
        if form != 31:
            raise
        raise UnreadableCoding("it is not compressed as it says") from None
    if len(plain) > most:
        raise UnreadableCoding("it is more than is looked at as a whole once it is decompressed")
    if not stream.eof:
        raise UnreadableCoding("it ends early")
    return plain, stream.unused_data


def _unbrotlied(said: bytes | bytearray, most: int) -> bytes:
    plain, rest = _whole(libraries.brotli_stream(), said, most)
    if rest:
        raise UnreadableCoding("something follows what is compressed")
    return plain


def _unzstded(said: bytes | bytearray, most: int) -> bytes:
    """All frames, those that are skipped too, and nothing after them."""
    pieces: list[bytes] = []
    rest: bytes | bytearray = said
    while rest or not pieces:
        if len(pieces) >= MOST_MEMBERS:
            raise UnreadableCoding("it is compressed in too many parts")
        piece, rest = _whole(libraries.zstd_stream(), rest, most)
        most -= len(piece)
        pieces.append(piece)
    return b"".join(pieces)


def _whole(stream: libraries.Stream | None, said: bytes | bytearray, most: int) -> tuple[bytes, bytes]:
    """One stream to its end, and what follows it."""
    if stream is None:
        raise UnreadableCoding(f"the library for its Content-Encoding is missing: {libraries.HOW}")
    pieces: list[bytes] = []
    size = 0
    try:
        while not stream.eof and size <= most and not (pieces and stream.needs_input):
            pieces.append(stream.decompress(b"" if pieces else said, most + 1 - size))
            size += len(pieces[-1])
    except libraries.ERRORS:
        raise UnreadableCoding("it is not compressed as it says") from None
    if size > most:
        raise UnreadableCoding("it is more than is looked at as a whole once it is decompressed")
    if not stream.eof:
        raise UnreadableCoding("it ends early")
    return b"".join(pieces), stream.unused_data


CODINGS: dict[bytes, Callable[[bytes | bytearray, int], bytes]] = {
    b"gzip": _ungzipped, b"x-gzip": _ungzipped, b"deflate": _inflated, b"br": _unbrotlied, b"zstd": _unzstded,
}  # fmt: skip
