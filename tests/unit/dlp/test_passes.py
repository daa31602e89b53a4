"""The passes in C say what the same in plain Python says, whatever the text."""

from __future__ import annotations

import base64
import gzip
import html
import random
from collections.abc import Callable, Iterable, Iterator
from urllib.parse import quote

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from _support import plain_decoders as plain
from pysandbox.dlp import passes, registry
from pysandbox.dlp.decode import SMALL, base32s, base64s, hexes
from pysandbox.dlp.passes import Buffer
from pysandbox.dlp.text import SHORTEST, texts

BETWEEN = passes.BREAK + b"\n"
TOKENS = [each.hits[0] for each in registry.ALL]
PIECES = [
    b"%", b"%25", b"%41", b"%u0041", b"%u00e9", b"\\", b"\\\\", b"\\/", b'\\"', b"\\n", b"\\r", b"\\u0041",
    b"\\u{41}", b"\\u{0000000041}", b"\\u{00000000041}", b"\\u{110000}", b"\\ud800", b"\\x41", b"\\101", b"\\377",
    b"\\477", b"&", b"&amp;", b"amp;", b"&quot;", b"quot;", b"&lowbar;", b"UnderBar;", b"&sol;", b"num;",
    b"&NewLine;", b"&VerticalLine;", b"&AMP;", b"\x28\xb5\x2f\xfd", b"\x28", b"\xb5", b"M5UHAX2B" * 4,
    b"m5uhax2b" * 4, b"ABCD\r\n" * 8, b"&#65;", b"&#0000000065", b"&#000000000065;", b"&#x41;", b"&#X0000000000e9;",
    b"&#x110000;", b"&#9999999;", b"&#12345678;", b"&#65a", b"\n", b"=", b"=\r\n", b"=41=42=", b"=\n", b"+",
    b"BEGIN+", b"earer+", b"0x", b"0X", b"0x41", b"00x", b"Xx", b"ab", b"12:34", b"deadbeef" * 4, b"QUJD",
    b"c2Vj" * 6, b"-_", b" ", b"\t", b"\r\n", b"a", b"G", b".", b"\0", b"\x01", b"\x7f", b"\x80", b"\xff",
    "\u0430".encode(), "\u0410\u0440".encode() * 5, "\uff21".encode(), "\uff5f".encode(), "\u200b".encode(),
    "\u0301".encode(), "\U000e0061".encode(), b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xe0\x80\x80", b"x\x9c",
    b"x\x01", b"x^", b"\x1f\x8b\x08", b"\x1f", b"x", b"sixteen letters!", *TOKENS[:4],
]  # fmt: skip
ANY_BYTES = st.binary(max_size=200)
OF_PIECES = st.lists(st.sampled_from(PIECES) | st.binary(max_size=3), max_size=60).map(b"".join)
ENCODED = st.sampled_from(TOKENS).flatmap(
    lambda said: st.sampled_from([
        base64.b64encode(said), base64.b64encode(b"\xff" + said), base64.b64encode(said.decode().encode("utf-16")),
        base64.b32encode(said), base64.b32encode(b"\xff" + said).lower(), base64.encodebytes(said),
        said.hex().encode(), said.hex(":").encode(), quote(said).encode(),
        html.escape(said.decode()).encode(), base64.b64encode(gzip.compress(said)), gzip.compress(said).hex().encode(),
        base64.b64encode(f"\u00e9 {said.decode()}".encode()), b"0x" + said.hex().encode(),
    ])
)  # fmt: skip
BLOBS = ANY_BYTES | OF_PIECES | st.lists(ENCODED | OF_PIECES, max_size=6).map(b"".join)
checks = settings(deadline=None, max_examples=300)


def said_by(decode: Callable[[bytes], Iterable[Buffer]], text: bytes) -> tuple[bytes, list[bytes]]:
    """The texts that come of it, with what stands between them; and the blobs in which something may be compressed."""
    found, blobs = b"", []
    for each in decode(text):
        said = bytes(each)
        if isinstance(each, memoryview):
            found += b"".join(view + BETWEEN for view in texts(each, is_guess=True))
            blobs += [said] if plain.compressed(said) and not said.isascii() else []
        else:
            found += said
    return found, blobs


def wanted_of(decode: Callable[[bytes], Iterator[bytes]], text: bytes) -> tuple[bytes, list[bytes]]:
    blobs = list(decode(text))
    views = (view for each in blobs for view in plain.texts(each, is_guess=True))
    return (
        b"".join(view + BETWEEN for view in views),
        [each for each in blobs if plain.compressed(each) and not each.isascii()],
    )


@checks
@given(BLOBS, st.booleans())
def test_texts_in_bytes(blob: bytes, is_guess: bool) -> None:
    wanted = plain.texts(blob, is_guess=is_guess)
    for form in (blob, bytearray(blob), memoryview(blob)):
        assert [bytes(each) for each in texts(form, is_guess=is_guess)] == wanted


@checks
@given(BLOBS)
@example(b"%" + b"25" * 31 + b"41")
@example(b"%" + b"25" * 30 + b"41")
@example(b"\\" * 40 + b"n")
def test_escapes(text: bytes) -> None:
    try:
        wanted: bytes | None = plain.unescaped(text)
    except plain.TooOften:
        wanted = None
    assert passes.unescaped(text) == wanted


@checks
@given(BLOBS)
def test_runs_of_base64(text: bytes) -> None:
    assert said_by(base64s, text) == wanted_of(plain.base64s, text)


@checks
@given(BLOBS)
def test_runs_of_hex(text: bytes) -> None:
    assert said_by(hexes, text) == wanted_of(plain.hexes, text)


@checks
@given(BLOBS)
def test_runs_of_base32(text: bytes) -> None:
    assert said_by(base32s, text) == wanted_of(plain.base32s, text)


@checks
@given(BLOBS)
@example(b"\0" * 4095 + b"\x28\xb5\x2f\xfd")
@example(b"\0" * 4092 + b"\x28\xb5\x2f\xfd" * 2)
def test_what_else_is_looked_for(blob: bytes) -> None:
    assert list(passes.compressed(blob)) == plain.compressed(blob)
    assert passes.unquoted(blob) == plain.unquoted(blob)
    assert passes.is_form(blob) == (b"BEGIN+" in blob or b"earer+" in blob)


@pytest.mark.parametrize("seed", range(20))
def test_long_texts_with_all_of_it(seed: int) -> None:
    """Beyond the sizes at which memory is asked for, texts are said together, and blobs are somebody else's."""
    drawn = random.Random(seed)
    size = drawn.choice([2700, 2720, SMALL, 5500, 20_000, 100_000])
    kinds = [
        lambda: base64.b64encode(drawn.randbytes(drawn.randrange(size))), lambda: drawn.randbytes(drawn.randrange(80)),
        lambda: drawn.randbytes(drawn.randrange(size)).hex().encode(),
        lambda: drawn.choice(PIECES) * drawn.randrange(40), lambda: b"\0" * drawn.randrange(5000) + b"\x28\xb5\x2f\xfd",
        lambda: base64.b32encode(drawn.choice(TOKENS) * drawn.randrange(1, 60) + drawn.randbytes(3)),
        lambda: base64.b64encode(drawn.choice(TOKENS) * drawn.randrange(1, 60)),
        lambda: base64.b64encode((drawn.choice(TOKENS) * drawn.randrange(1, 60)).decode().encode("utf-16")),
        lambda: b"\n" + (drawn.choice(TOKENS) * drawn.randrange(1, 40)).hex().encode(),
    ]  # fmt: skip
    blob = b"".join(drawn.choice(kinds)() for _ in range(12))
    assert [bytes(each) for each in texts(blob)] == plain.texts(blob)
    assert said_by(base64s, blob) == wanted_of(plain.base64s, blob)
    assert said_by(hexes, blob) == wanted_of(plain.hexes, blob)
    assert said_by(base32s, blob) == wanted_of(plain.base32s, blob)
    assert list(passes.compressed(blob)) == plain.compressed(blob)


def test_a_small_text_is_said_with_others_that_are_small_together() -> None:
    """So that what is only looked for in small texts is looked for in each of them."""
    text = b"\n\n~".join(base64.b64encode(b"a text of some length, number %d" % at) for at in range(3000))
    sizes = [len(each) for each in base64s(text)]
    assert len(sizes) > 20 and max(sizes) <= SMALL and min(sizes) >= SHORTEST
