"""How else a text may be written: what looks for a placeholder, or covers a value, looks for each of these. Pure.

    as it is                 percent-encoded, once to three times      as JSON has it (\\u0041)
    in hexadecimal           in base64, at each of its three offsets, in both alphabets

What is not found: a text in pieces of fewer than some twenty characters, reversed, compressed, encrypted, or in an
encoding of somebody's own. Such a placeholder is good for nothing; of a value it means that a server which is told a
secret, and wants to tell the cage, can.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator
from urllib.parse import quote, unquote_to_bytes

PIECE = 12  # letters of a placeholder that nothing has by accident
MOST_PIECES = 64
ESCAPED = re.compile(rb"\\u([0-9a-fA-F]{4})|\\x([0-9a-fA-F]{2})|\\(/)")
MOST_DECODED = 3


def base64_of(text: bytes) -> list[bytes]:
    """What each text in base64 has in it that has this one: at each offset, without the letters that are made of
    neighbours too."""
    found: list[bytes] = []
    for offset in range(3):
        begins, ends = -(-offset * 8 // 6), (offset + len(text)) * 8 // 6
        whole = base64.b64encode(bytes(offset) + text)[begins:ends]
        found += [whole, whole.replace(b"+", b"-").replace(b"/", b"_")]
    return found


def spellings(text: bytes) -> list[bytes]:
    """The text itself first; some may be equal."""
    quoted = quote(text, safe="").encode()
    lower = re.sub(rb"%..", lambda found: found[0].lower(), quoted)
    escaped = text.replace(b"\\", b"\\\\").replace(b'"', b'\\"')
    hexed = text.hex().encode()
    return [
        text, quoted, lower, quote(text).encode(), escaped, escaped.replace(b"/", b"\\/"), hexed, hexed.upper(),
        *base64_of(text),
    ]  # fmt: skip


def needles(placeholder: bytes) -> list[bytes]:
    """Pieces of a placeholder and its encodings: none is in a message that has nothing of it."""
    step = 15 if placeholder.isdigit() else PIECE
    ends = range(len(placeholder), step - 1, -step)  # its end is chance, its beginning may be known to everybody
    pieces = [placeholder[end - step : end] for end in ends][:MOST_PIECES]
    return list(dict.fromkeys((*pieces, placeholder, *base64_of(placeholder), *_hexed(placeholder))))


def _hexed(text: bytes) -> tuple[bytes, bytes]:
    return text.hex().encode(), text.hex().upper().encode()


def readings(said: bytes) -> Iterator[bytes]:
    """What a reader may make of it: as it is, without percent-encoding, without the escapes of JSON."""
    yield said
    if b"\\" in said:
        yield ESCAPED.sub(_unescaped, said)
    for _ in range(MOST_DECODED):
        if b"%" not in said:
            return
        before, said = said, unquote_to_bytes(said)
        if said == before:
            return
        yield said
        if b"\\" in said:
            yield ESCAPED.sub(_unescaped, said)


def _unescaped(found: re.Match[bytes]) -> bytes:
    if found[3]:
        return b"/"
    code = int(found[1] or found[2], 16)
    return bytes([code]) if code < 128 else b"?"


def covers(value: bytes, placeholder: bytes) -> dict[bytes, bytes]:
    """For each spelling of a value what stands in its place: the same spelling of the placeholder, of the same
    length."""
    pairs = zip(spellings(value), spellings(placeholder), strict=True)
    return {said: _fitted(cover, len(said)) for said, cover in reversed(list(pairs))}


def _fitted(text: bytes, length: int) -> bytes:
    return (text * (length // len(text) + 1))[:length]
