"""From a text to the bytes that are encoded in it: escapes of URLs, JSON and HTML, quoted-printable, base64, base32,
hex, gzip, zlib and zstd. What cannot be decoded is nothing; nobody says that a stretch of letters has to be base64.

A run of base64 or hex is found by its alphabet, and may begin in the middle: before it stands whatever its alphabet
allows, too. So it is decoded from each letter where a byte may begin: four of base64, eight of base32, two of hex.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress

from pysandbox.dlp import libraries, passes
from pysandbox.dlp.passes import DIGITS, LETTERS, Buffer, Text, decoded_runs
from pysandbox.dlp.work import Undecodable

BASE64 = LETTERS + DIGITS + b"+/"
BASE32 = LETTERS[:26] + b"234567"
BLANKS = b" \t\r\n"
SMALL = 4096  # bytes of a text in which base64 may also have blanks between its letters
COST_OF_A_TRY = 1024  # bytes, and as many are fed at first
COST_OF_PARTS = 1 << 14  # of one that is broken
A_TURN = 1 << 14  # bytes of work, at least, between two moments at which others may have their turn
GZIP_OR_ZLIB = 47  # whichever of both formats, with any window
ZSTD = 0x28  # how its format begins, and no other that is looked for

# Runs of sixteen bytes; of base64 a letter more than is needed of it, and the rest of one.
_BASE64 = passes.also(passes.alphabet(BASE64, b"\r\n", least=22), b"-_", b"+/")
_BASE64_WITH_BLANKS = passes.also(passes.alphabet(BASE64, BLANKS, least=22), b"-_", b"+/")
_BASE32 = [passes.alphabet(each, b"\r\n", least=26) for each in (BASE32, BASE32.lower())]
_HEX = passes.also(
    passes.alphabet(DIGITS + b"abcdef", BLANKS + b":,;.-_|\\x", least=32, skips_0x=True), b"ABCDEF", b"abcdef"
)


def decoded(text: Text) -> Iterator[tuple[str, Buffer]]:
    """What is encoded in a text, each with the name of the encoding; each is used before the next is asked for. Where
    the text is long there are empty ones between: moments at which others may have their turn. Raises Undecodable."""
    for part in passes.unescaped_parts(text):
        yield "escapes", _unescaped(part)
    for name, decode in ENCODINGS:
        for said in decode(text):
            yield name, said
            del said  # which may be as large as the text
        if len(text) >= passes.LARGE:
            yield name, b""


def escapes(text: Text) -> Text:
    """The lines that have escapes of URLs, JSON or HTML, without them, however often they were escaped."""
    return _unescaped(passes.unescaped(text))


def _unescaped(plain: Text | None) -> Text:
    if plain is None:
        raise Undecodable(f"escaped more than {passes.MOST_LAYERS} times over")
    return plain


def quoted(text: Text) -> Iterator[Text]:
    """The lines of quoted-printable."""
    yield passes.unquoted(text)


def form(text: Text) -> Iterator[Text]:
    """A plus is a blank in a form: of use to the two credentials with a blank in them."""
    if passes.is_form(text):
        yield text.replace(b"+", b" ")


def base64s(text: Text) -> Iterator[Buffer]:
    """By both alphabets, padded or not, wrapped or not; in a small text also with blanks."""
    yield from decoded_runs(text, _BASE64)
    if len(text) <= SMALL and (b" " in text or b"\t" in text):
        yield from decoded_runs(text, _BASE64_WITH_BLANKS)


def base32s(text: Text) -> Iterator[Buffer]:
    """In capitals throughout, or in small letters, padded or not, wrapped or not."""
    for letters in _BASE32:
        yield from decoded_runs(text, letters)


def hexes(text: Text) -> Iterator[Buffer]:
    """With separators or without, with 0x before each byte or not."""
    return decoded_runs(text, _HEX)


ENCODINGS: tuple[tuple[str, Callable[[Text], Iterator[Buffer]]], ...] = (
    ("quoted-printable", quoted), ("form", form), ("base64", base64s), ("base32", base32s), ("hex", hexes),
)  # fmt: skip


def inflated(
    blob: Buffer, charge: Callable[[int], object], longest: int | None = None
) -> Iterator[tuple[str, bytes]]:  # fmt: skip
    """What is compressed anywhere in a blob, as far as it can be read, each with the name of its format, and empty ones
    between, as of `decoded`. Each try and each byte is charged. `longest`: how many bytes before the end of the blob
    something may begin that goes on beyond it. Raises Undecodable."""
    if not passes.bytes_of(blob)[1]:  # it is ASCII: zlib's format begins with x^, and so does much of mathematics
        return
    since = 0  # bytes of work since others had their turn
    for at in passes.compressed(blob):
        pieces, tried = [], _Try(memoryview(blob)[at:])
        name = tried.name
        for work, piece in tried.pieces():
            charge(work)
            pieces.append(piece)
            since += work
            if since >= A_TURN:
                yield name, b""
                since = 0
        if said := b"".join(pieces):
            yield name, said
        if tried.is_open and longest is not None and len(blob) - at > longest:
            raise Undecodable("what is compressed in it is longer than what is looked at as a whole")


class _Try:
    """What may be the beginning of something compressed. `is_open`: it is, and goes on beyond the end."""

    def __init__(self, said: memoryview) -> None:
        self._said, self.is_open = said, False
        self.name = "zstd" if said[0] == ZSTD else "gzip"

    def pieces(self) -> Iterator[tuple[int, bytes]]:
        """What it says as far as it can be read, each piece with how many bytes of work it was. Raises Undecodable."""
        yield COST_OF_A_TRY, b""
        stream = libraries.LenientZlib(GZIP_OR_ZLIB) if self.name == "gzip" else libraries.lenient_zstd_stream()
        if stream is None:
            raise Undecodable(f"something in it is compressed with zstd, and the library is missing: {libraries.HOW}")
        with suppress(*libraries.ERRORS):
            yield from libraries.undoing(stream, self._said, COST_OF_A_TRY)
            self.is_open = not stream.eof
        if isinstance(stream, libraries.LenientZlib) and stream.was_split:
            yield COST_OF_PARTS, b""
