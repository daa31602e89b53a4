"""Whether a text may be cut where it ends: whether what comes next could make a credential of its last bytes, in any of
the encodings that a scan undoes.

It is asked of what ends with a byte that is in no encoding (`BOUNDARY`) or with a line. A line may be the first of an
encoding that goes on: so what is encoded at its end is undone, and held against how credentials begin. Three bytes of a
literal are a beginning, and so is a run that says a text of a dozen bytes; whatever is less tells nobody anything.
Compressed data that is not over is a beginning, whatever is in it.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Generator, Iterable, Iterator, Sequence
from itertools import chain

from pysandbox.dlp import decode, passes
from pysandbox.dlp.begun import begun
from pysandbox.dlp.detector import Detector
from pysandbox.dlp.nominate import Nominator
from pysandbox.dlp.passes import DIGITS, Buffer
from pysandbox.dlp.text import ALIKE
from pysandbox.dlp.work import Undecodable, Work

BOUNDARY = rb"\n\"'{}\[\])<>!$*?@`\x02-\x08\x0b-\x1e\x7f"  # of an expression; without ( ^ 01 1f, that begin formats
WINDOW = 1 << 14  # bytes before an end that are looked at
SHORTEST = 3  # bytes of a literal that are a beginning
A_TEXT = 12  # printable bytes that no chance has put there
DEPTH = 4  # encodings inside each other, of less than a text
LETTERS = 64  # of a run that are undone: more than a text
FEWEST = 4  # letters of a run: three bytes

BLANKS, LINES = b" \t\r\n", b"\r\n"
HEX, OF_HEX = DIGITS + b"abcdefABCDEF", BLANKS + b":,;.-_|\\xX"
PRINTABLE = bytes(range(0x20, 0x7F)) + b"\t\r\n"
BASE64 = decode.BASE64 + b"-_"
MAGIC = (b"\x1f\x8b\x08", b"\x28\xb5\x2f\xfd")  # of gzip and zstd; zlib's is two bytes that prose has now and then


class Endings:
    """Whether something goes on at the end of a text, for these detectors."""

    def __init__(self, detectors: Sequence[Detector], nominator: Nominator) -> None:
        self._nominator = nominator
        literals = {literal for each in detectors for literal in each.literals}
        self._begins = frozenset(each[:size] for each in literals for size in range(SHORTEST, len(each)))
        self._sizes = sorted({len(each) for each in self._begins})
        self._window = max(each.lead + each.longest for each in detectors)

    def is_open(self, end: bytes, since: bytes) -> bool:
        """`end`: the last WINDOW bytes; `since`: all bytes since the last place where it was cut."""
        steps = self.steps(end, since)
        while True:
            try:
                next(steps)
            except StopIteration as over:
                return bool(over.value)

    def steps(self, end: bytes, since: bytes) -> Generator[int, None, bool]:
        """As `is_open`, in steps of so many bytes."""
        work = Work(len(since))
        try:
            for each in _readings(since):
                yield from _unpacking(each, work)
            return self._is_open(end, DEPTH, work)
        except Undecodable:
            return True

    def _is_open(self, said: bytes, depth: int, work: Work) -> bool:
        return any(self._text_is_open(text, depth, work) for text in _views(said))

    def _text_is_open(self, text: bytes, depth: int, work: Work) -> bool:
        if any(text[-size:] in self._begins for size in self._sizes) or self._has_begun(text, work):
            return True
        if depth == DEPTH and _has_soft_break(text):
            return True
        if not depth:
            return False
        for plain in _undone(text, LETTERS):
            if any(len(view) >= A_TEXT for view in _views(plain)) or self._is_open(plain, depth - 1, work):
                return True
        return any(plain and self._is_open(plain[-WINDOW:], depth - 1, work) for plain in _plain(text))

    def _has_begun(self, text: bytes, work: Work) -> bool:
        """Whether a find may go on at its end."""
        text = text[-self._window :]
        for detector, at in list(self._nominator.places(text)):
            if at + detector.longest <= len(text):
                continue
            work.take(detector.price or detector.lead + detector.longest)
            expression = begun(detector.expression)
            if any(expression.match(text, begin) for begin in range(max(0, at - detector.lead), at + 1)):
                return True
        return False


# ---- the end of a text ---------------------------------------------------------------------------------------------


def _readings(said: bytes) -> Iterable[bytes]:
    """As it is, and where that may hide something, without what cannot be seen."""
    others = [said.replace(b"\0", b"")] if 0 in said else []
    return dict.fromkeys((said, *others, *(() if said.isascii() else (passes.unseen(said, ALIKE),))))


def _views(said: bytes) -> Iterable[bytes]:
    """The printable end of each reading of it, where that is long enough to be a beginning."""
    return dict.fromkeys(last for each in _readings(said) if len(last := _last(each, PRINTABLE)) >= SHORTEST)


def _last(text: bytes, letters: bytes) -> bytes:
    """What it ends with of these letters."""
    return text[len(text.rstrip(letters)) :]


def _has_soft_break(text: bytes) -> bool:
    """Whether its last line goes on with the next, as quoted-printable says it; base64 is filled up with the same."""
    line = text.rstrip(LINES)
    if line == text or line[-1:] != b"=":
        return False
    line = line[max(line.rfind(b"\n") + 1, len(line) - WINDOW) :]
    return len(line) % 4 != 0 or bool(line.rstrip(b"=").translate(None, BASE64))


def _plain(text: bytes) -> Iterator[bytes]:
    """The text with the escapes of its last line undone, where that has some."""
    line = text[text.rstrip(LINES).rfind(b"\n") + 1 :]
    if any(mark in line for mark in (b"%", b"\\", b"&")):
        yield bytes(decode.escapes(text))
    if b"=" in (line := _with_soft_breaks(text, len(text) - len(line))):
        yield from map(bytes, decode.quoted(line))
    if b"+" in line:
        yield from map(bytes, decode.form(text))


def _with_soft_breaks(text: bytes, at: int) -> bytes:
    """The line that begins there, with those before it that end in a soft break."""
    while text[:at].rstrip(LINES)[-1:] == b"=":
        at = text.rfind(b"\n", 0, at - 1) + 1
    return text[at:]


def _undone(text: bytes, most: int, wrapped: Iterable[bytes] = (LINES, BLANKS)) -> Iterator[bytes]:
    """What the last letters of a text say in base64, base32 and hex, from each letter where a byte may begin."""
    for separators in wrapped:
        yield from _of_base64(_last(text, BASE64 + separators).translate(None, separators)[-most:])
    for alphabet in (decode.BASE32, decode.BASE32.lower()):
        yield from _of_base32(_last(text, alphabet + LINES).translate(None, LINES)[-most:])
    run = _last(text, HEX + OF_HEX)
    letters = run.replace(b"0x", b"").replace(b"0X", b"").translate(None, OF_HEX)[-most:]
    for begin in range(2 if len(letters) >= FEWEST else 0):
        yield bytes.fromhex(letters[begin : begin + (len(letters) - begin) // 2 * 2].decode())


def _of_base64(letters: bytes) -> Iterator[bytes]:
    letters = letters.replace(b"-", b"+").replace(b"_", b"/")
    for begin in range(4 if len(letters) >= FEWEST else 0):
        size = len(letters) - begin
        yield binascii.a2b_base64(letters[begin:] + b"A" * (-size % 4))[: size * 6 // 8]


def _of_base32(letters: bytes) -> Iterator[bytes]:
    for begin in range(min(8, len(letters)) if len(letters) > FEWEST else 0):
        size = len(letters) - begin
        yield base64.b32decode(letters[begin:].upper() + b"A" * (-size % 8))[: size * 5 // 8]


# ---- what is compressed --------------------------------------------------------------------------------------------


def _unpacking(said: bytes, work: Work) -> Iterator[int]:
    """Looks whether something compressed goes on at its end; also in an encoding that goes on. Raises Undecodable
    then."""
    for plain in chain((said,), _runs(said), _undone(said, LETTERS, (LINES,))):
        yield from _inflating(plain, work)
    for plain in _of_base64(_last(said[-decode.SMALL :], BASE64 + BLANKS).translate(None, BLANKS)):
        if any(each in plain for each in MAGIC):
            yield from _inflating(plain, work)


def _inflating(plain: Buffer, work: Work) -> Iterator[int]:
    before = work.left
    for _ in decode.inflated(plain, work.take, 0):
        yield before - work.left
        before = work.left


def _runs(said: bytes) -> Iterator[Buffer]:
    """What the long ones at its end say; each is used before the next is asked for."""
    yield from decode.base64s(_last(said, BASE64 + LINES))
    for alphabet in (decode.BASE32, decode.BASE32.lower()):
        yield from decode.base32s(_last(said, alphabet + LINES))
    yield from decode.hexes(_last(said, HEX + OF_HEX))
