"""What undoes compression: zlib, which is always there; brotli, and before Python 3.14 zstd, of a library each (`pip
install 'pysandbox[dlp]'`). Either may be missing: what is compressed so cannot be looked at then, and is refused.

Loaded where bodies are scanned, and with this file: a confined inspector can load nothing later.
"""

from __future__ import annotations

import zlib
from collections.abc import Generator
from contextlib import suppress

from pysandbox.shapes import Any, Protocol

try:
    import brotli
except ImportError:
    brotli = None
try:
    from compression import zstd  # Python 3.14
except ImportError:
    try:
        from backports import zstd
    except ImportError:
        zstd = None

HOW = "pip install 'pysandbox[dlp]'"
WINDOW = 23  # log2: 8 MiB are the most that a body in zstd may ask for (RFC 9659)
FRAME_FLAGS, HAS_CHECKSUM = 4, 4  # which byte of a frame of zstd, and which bit of it
PIECE = 1 << 16  # bytes; the most that is fed, or comes out, at once
LIMITS_ITS_OUTPUT = (1, 2)  # the version of brotli from which on a few bytes cannot take all memory


class Stream(Protocol):
    """What is compressed once, undone a piece at a time, as zstd of Python 3.14 does it."""

    @property
    def eof(self) -> bool: ...
    @property
    def needs_input(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...
    def decompress(self, said: Any, max_length: int) -> bytes:
        """About so many bytes at most. Raises one of ERRORS."""


class _Zlib:
    """As zstd of Python 3.14 does it. What it is fed is to be small: it copies what it leaves of it."""

    def __init__(self, form: int) -> None:
        self._stream = zlib.decompressobj(form)
        self._has_more = False

    @property
    def eof(self) -> bool:
        return self._stream.eof

    @property
    def needs_input(self) -> bool:
        return not (self._has_more or self._stream.unconsumed_tail)

    @property
    def unused_data(self) -> bytes:
        return self._stream.unused_data

    def decompress(self, said: Any, max_length: int) -> bytes:
        piece = self._stream.decompress(self._stream.unconsumed_tail or said, max_length)
        self._has_more = len(piece) == max_length
        return piece


class LenientZlib(_Zlib):
    """As a reader who minds no checksum: it ends where an error is, and says what came before. `was_split`: a call was
    tried in parts for that, which is much work."""

    was_split = False

    def __init__(self, form: int) -> None:
        super().__init__(form)
        self._has_said = self._is_broken = False

    @property
    def eof(self) -> bool:
        return self._is_broken or super().eof

    def decompress(self, said: Any, max_length: int) -> bytes:
        before, fed = self._stream.copy(), self._stream.unconsumed_tail or said
        try:
            piece = super().decompress(said, max_length)
        except zlib.error:
            self._is_broken = True
            return self._before_error(before, fed, max_length)
        self._has_said = self._has_said or bool(piece)
        return piece

    def _before_error(self, stream: Any, fed: Any, max_length: int) -> bytes:
        """What the longest beginning says that has no error in it."""
        pieces: list[bytes] = []
        at, size = 0, (1 << len(fed).bit_length()) >> 1
        with suppress(zlib.error):
            self.was_split = self._has_said or bool(stream.copy().decompress(fed, 1))
        while self.was_split and size:
            tried = stream.copy()
            with suppress(zlib.error):
                pieces.append(tried.decompress(fed[at : at + size], max_length))
                stream, at = tried, at + size
            size //= 2
        return b"".join(pieces)


class _LenientZstd:
    """As a reader who minds no checksum: the frame is told that it has none (RFC 8878, 3.1.1.1.1)."""

    def __init__(self, stream: Stream) -> None:
        self._stream, self._is_first = stream, True

    @property
    def eof(self) -> bool:
        return self._stream.eof

    @property
    def needs_input(self) -> bool:
        return self._stream.needs_input

    @property
    def unused_data(self) -> bytes:
        return self._stream.unused_data

    def decompress(self, said: Any, max_length: int) -> bytes:
        if self._is_first and len(said) > FRAME_FLAGS:
            said = bytearray(said)
            said[FRAME_FLAGS] &= ~HAS_CHECKSUM
        self._is_first = False
        return self._stream.decompress(said, max_length)


class _Brotli:
    unused_data = b""  # what follows a stream is an error

    def __init__(self) -> None:
        self._stream = brotli.Decompressor()
        self._has_more = False

    @property
    def eof(self) -> bool:
        return bool(self._stream.is_finished())

    @property
    def needs_input(self) -> bool:
        return not self._has_more and bool(self._stream.can_accept_more_data())

    def decompress(self, said: Any, max_length: int) -> bytes:
        piece = bytes(self._stream.process(said, output_buffer_limit=max_length))
        self._has_more = len(piece) >= max_length
        return piece


def zlib_stream(form: int) -> Stream:
    """`form`: the window, as `zlib` has it."""
    return _Zlib(form)


def brotli_stream() -> Stream | None:
    """None where the library is missing, or too old."""
    if brotli is None or tuple(map(int, brotli.__version__.split(".")[:2])) < LIMITS_ITS_OUTPUT:
        return None
    return _Brotli()


def lenient_zstd_stream() -> Stream | None:
    """None where the library is missing. What it is fed first has the flags of its frame in it."""
    made = zstd_stream()
    return _LenientZstd(made) if made is not None else None


def zstd_stream() -> Stream | None:
    """None where the library is missing."""
    if zstd is None:
        return None
    made: Stream = zstd.ZstdDecompressor(options={zstd.DecompressionParameter.window_log_max: WINDOW})
    return made


ERRORS: tuple[type[Exception], ...] = (
    zlib.error,
    *(error for error in (brotli and brotli.error, zstd and zstd.ZstdError) if error is not None),
)


def undoing(stream: Stream, said: memoryview, first: int = PIECE) -> Generator[tuple[int, bytes], None, int]:
    """What a stream says, in pieces of PIECE bytes at most, each with how many bytes of work it was: those that went in
    or those that came out, whichever are more; so neither a stream of nothing nor one of zeros is cheap. `first` is how
    much is fed at first. Returns where it ends in `said`; if it has not, `stream.eof` says so. Raises one of ERRORS."""
    at, size = 0, first
    while at < len(said) and not stream.eof:
        fed = said[at : at + size]
        at, size = at + len(fed), min(2 * size, PIECE)
        piece = stream.decompress(fed, PIECE)
        yield max(len(fed), len(piece)), piece
        while not (stream.eof or stream.needs_input):
            piece = stream.decompress(b"", PIECE)
            yield len(piece), piece
    return at - len(stream.unused_data)
