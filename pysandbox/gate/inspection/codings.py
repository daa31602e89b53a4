"""What a request's body says once its Content-Encoding is undone. What cannot be undone to its last byte is refused: a
server may read what nobody here has. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Generator

from pysandbox.dlp import libraries

IDENTITY = b"identity"
MOST_CODINGS = 4
MOST_MEMBERS = 64  # of one gzip file
GZIP, ZLIB = 31, 15  # as `zlib` tells formats


class UnreadableCoding(Exception):
    """A body that cannot be decoded; says why."""


class _OtherFormat(UnreadableCoding):
    """A body that is not compressed as it says."""


Undoing = Generator[int, None, bytes]


def plain(said: bytes | bytearray, codings: list[bytes], most: int) -> Generator[int, None, bytes | bytearray]:
    """Returns it without them; at most so many bytes. Stops after each piece to say of how many bytes it was. Raises
    UnreadableCoding."""
    applied = [each for each in codings if each != IDENTITY]
    if len(applied) > MOST_CODINGS:
        raise UnreadableCoding("too many encodings inside each other")
    for coding in reversed(applied):
        undo = CODINGS.get(coding)
        if undo is None:
            raise UnreadableCoding("its Content-Encoding is not known here: gzip, deflate, br and zstd are")
        said = yield from undo(said, most)
    return said


def _ungzipped(said: bytes | bytearray, most: int) -> Undoing:
    """All members, and nothing after them."""
    return (yield from _streams(lambda: libraries.zlib_stream(GZIP), said, most))


def _inflated(said: bytes | bytearray, most: int) -> Undoing:
    """zlib's format; or what it wraps alone, as some send it."""
    try:
        return (yield from _only(libraries.zlib_stream(ZLIB), said, most))
    except _OtherFormat:
        return (yield from _only(libraries.zlib_stream(-ZLIB), said, most))


def _unbrotlied(said: bytes | bytearray, most: int) -> Undoing:
    return (yield from _only(libraries.brotli_stream(), said, most))


def _unzstded(said: bytes | bytearray, most: int) -> Undoing:
    """All frames, those that are skipped too, and nothing after them."""
    return (yield from _streams(libraries.zstd_stream, said, most))


def _streams(begin: Callable[[], libraries.Stream | None], said: bytes | bytearray, most: int) -> Undoing:
    """One after the other, and nothing after them."""
    pieces: list[bytes] = []
    rest = memoryview(said)
    for _ in range(MOST_MEMBERS):
        size = yield from _undo(begin(), rest, most, pieces)
        rest = rest[size:]
        if not rest:
            return b"".join(pieces)
    raise UnreadableCoding("it is compressed in too many parts")


def _only(stream: libraries.Stream | None, said: bytes | bytearray, most: int) -> Undoing:
    pieces: list[bytes] = []
    if (yield from _undo(stream, memoryview(said), most, pieces)) < len(said):
        raise UnreadableCoding("something follows what is compressed")
    return b"".join(pieces)


def _undo(
    stream: libraries.Stream | None, said: memoryview, most: int, pieces: list[bytes]
) -> Generator[int, None, int]:  # fmt: skip
    """One stream to its end, and returns where that is. `most` is of all the pieces together."""
    if stream is None:
        raise UnreadableCoding(f"the library for its Content-Encoding is missing: {libraries.HOW}")
    left, undoing = most - sum(map(len, pieces)), libraries.undoing(stream, said)
    while True:
        try:
            work, piece = next(undoing)
        except StopIteration as ended:
            end: int = ended.value
            break
        except libraries.ERRORS:
            raise _OtherFormat("it is not compressed as it says") from None
        left -= len(piece)
        if left < 0:
            raise UnreadableCoding("it is more than is looked at as a whole once it is decompressed")
        pieces.append(piece)
        yield work
    if not stream.eof:
        raise UnreadableCoding("it ends early")
    return end


CODINGS: dict[bytes, Callable[[bytes | bytearray, int], Undoing]] = {
    b"gzip": _ungzipped, b"x-gzip": _ungzipped, b"deflate": _inflated, b"br": _unbrotlied, b"zstd": _unzstded,
}  # fmt: skip
