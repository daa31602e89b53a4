"""What undoes the compression that Python itself does not: brotli, and before Python 3.14 zstd (`pip install
'pysandbox[dlp]'`). Either may be missing: what is compressed so cannot be looked at then, and is refused.

Loaded where bodies are scanned, and with this file: a confined inspector can load nothing later.
"""

from __future__ import annotations

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


class _Brotli:
    unused_data = b""  # what follows a stream is an error

    def __init__(self) -> None:
        self._stream = brotli.Decompressor()

    @property
    def eof(self) -> bool:
        return bool(self._stream.is_finished())

    @property
    def needs_input(self) -> bool:
        return bool(self._stream.can_accept_more_data())

    def decompress(self, said: Any, max_length: int) -> bytes:
        return bytes(self._stream.process(said, output_buffer_limit=max_length))


def brotli_stream() -> Stream | None:
    """None where the library is missing, or too old."""
    if brotli is None or tuple(map(int, brotli.__version__.split(".")[:2])) < LIMITS_ITS_OUTPUT:
        return None
    return _Brotli()


def zstd_stream() -> Stream | None:
    """None where the library is missing."""
    if zstd is None:
        return None
    made: Stream = zstd.ZstdDecompressor(options={zstd.DecompressionParameter.window_log_max: WINDOW})
    return made


ERRORS: tuple[type[Exception], ...] = tuple(
    error for error in (brotli and brotli.error, zstd and zstd.ZstdError) if error is not None
)
