"""What is data is told from what is language, whatever alphabet it is written in."""

from __future__ import annotations

import base64
import json
import random
import string
from collections.abc import Callable
from urllib.parse import quote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pysandbox._native import ffi, lib

from _support.tree import REPOSITORY, modules
from pysandbox.dlp.opaque import _expected, expected_bits, stretches

CHANCE = random.Random(7)
SIXTEEN = bytes.maketrans(b"0123456789abcdef", b"ghijklmnopqrstuv")
LOWER = (string.ascii_lowercase + string.digits).encode()


def share(text: bytes, *, named: bool = False) -> float:
    """The share of its bytes that is opaque."""
    return sum(len(each.said) for each in stretches(text) if not each.is_named or named) / len(text)


WAYS: dict[str, Callable[[bytes], bytes]] = {
    "base64": base64.b64encode, "base64, url": base64.urlsafe_b64encode, "wrapped": base64.encodebytes,
    "hex": lambda said: said.hex().encode(), "HEX": lambda said: said.hex().upper().encode(),
    "base32": base64.b32encode, "base32, lower": lambda said: base64.b32encode(said).lower(),
    "base36": lambda said: bytes(LOWER[each % 36] for each in said), "bytes": bytes,
    "decimal": lambda said: b"".join(b"%03d" % each for each in said),
    "percent": lambda said: b"".join(b"%%%02X" % each for each in said),
    "base64 in a form": lambda said: quote(base64.b64encode(said), safe="").encode(),
    "base64 in JSON": lambda said: b"".join(b"\\u%04x" % each for each in base64.b64encode(said)),
    "a letter escaped now and then": lambda said: b"%41".join(
        base64.b64encode(said)[at : at + 15] for at in range(0, len(said), 15)
    ),
    "sixteen letters": lambda said: said.hex().encode().translate(SIXTEEN),
    "as gzip": lambda said: b"\x1f\x8b\x08\0\0\0\0\0\0\x03" + said,
}  # fmt: skip


@pytest.mark.parametrize("way", WAYS)
def test_data_is_found_in_every_alphabet(way: str) -> None:
    for size in (1000, 9000, 200_000):
        text = WAYS[way](CHANCE.randbytes(size))
        found = b"".join(each.said for each in stretches(b"some words before " + text + b" and after"))
        assert len(found) > 0.9 * size, size


@pytest.mark.parametrize("size", [15, 18, 24, 48])
def test_most_of_what_is_short_is_found_too(size: int) -> None:
    for way, least in (("hex", 0.95), ("base64, url", 0.85), ("base32", 0.7)):
        lines = [WAYS[way](CHANCE.randbytes(size)) for _ in range(500)]
        assert sum(share(each, named=True) for each in lines) / len(lines) > least, way


def test_language_is_none() -> None:
    sources = [path.read_bytes() for path in modules()]
    pages = [path.read_bytes() for path in (REPOSITORY / "docs").rglob("*.md")]
    assert share(b"\n".join(sources)) < 0.001
    assert share(b"\n".join(pages)) < 0.001
    assert share(json.dumps({"content": sources[7].decode()}).encode()) < 0.001
    for text in (
        "\u4f60\u597d\u4e16\u754c" * 50,
        "\u041f\u0440\u0438\u0432\u0435\u0442, " * 50,
        "caf\xe9 \u201cla\u201d" * 50,
    ):
        assert share(text.encode()) == 0.0
        assert share(json.dumps(text).encode()) == 0.0


SHAPES = [
    b"https://example.com/2024/11/23/some-long-slug-with-words-and-2-numbers/index.html?utm_source=newsletter&page=12",
    b"/usr/lib/python3.11/site-packages/charset_normalizer/md__mypyc.cpython-311-x86_64-linux-gnu.so",
    b"Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/131.0.0.0 Safari/537.36",
    b"internationalization_and_localization_of_user_interfaces", b"AbstractSingletonProxyFactoryBean2Impl",
    b"-" * 80, b"=" * 80, b"0" * 64, b"1234567890" * 2 + b"a" * 30, b"__attribute__((__nonnull__(1,2)))",
    b"2026-11-23T18:00:00.000000Z 192.168.0.1 - - GET /index.html HTTP/1.1 200 12345",
]  # fmt: skip


@pytest.mark.parametrize("shape", SHAPES)
def test_what_is_written_every_day_is_none(shape: bytes) -> None:
    assert list(stretches(shape)) == []


NAMED = [
    b"7d1f0c5e-3b9a-4c68-8e27-f64b12a9d053", b"proj-7d1f0c5e-3b9a-4c68-8e27-f64b12a9d053",
    b"9fceb02d0ae598e95dc970b74767f19372d61af8", b"sha256:" + b"9fceb02d0ae598e95dc970b74767f193" * 2,
    b"sha512-z4PhNX7vuL3xVChQ1m2AB9Yg5AULVxXcg/SpIdNs6c5H0NE8XYXysP+DGNKHfuwvY7kxvUdBeoGlODJ6+SfaPg==",
    b"h1:mKMcVnJKZH6ymYXdBNvqGqRXmKEWXl1xAZbKoXGqHHs=",
    b"/packages/70/8e/0e2d847013cb52cd35b38c009bb167a1a26b2ce6cd6965bf26b47bc0bf44/requests-2.31.0-py3-none-any.whl",
]  # fmt: skip


@pytest.mark.parametrize("name", NAMED)
def test_digests_and_uuids_are_named(name: bytes) -> None:
    found = list(stretches(b'{"id": "' + name + b'"}'))
    assert found and all(each.is_named for each in found)


def test_what_is_longer_than_a_digest_is_none() -> None:
    for name in (NAMED[2] + b"0a", NAMED[0] + b"-0a1b2c3d", NAMED[4].replace(b"==", b"QUJD"), b"h2:" + NAMED[5][3:]):
        assert not any(each.is_named for each in stretches(name)), name


@given(st.binary(max_size=3000))
@settings(max_examples=200, deadline=None)
def test_no_stretch_is_outside_of_its_text_and_none_overlap(text: bytes) -> None:
    said = b"".join(each.said for each in stretches(text))
    assert len(said) <= 2 * len(text) and all(each.said for each in stretches(text))


def test_a_table_that_is_full_is_gone_on_with() -> None:
    lines = b"\n".join(CHANCE.randbytes(12).hex().encode() for _ in range(5000))
    assert share(lines) > 0.85
    assert share(b"words and words...".join(b"\x80" * 9 for _ in range(5000))) > 0.3


def test_a_run_of_many_parts_never_begins_where_they_may_not_all_have_room() -> None:
    part = b"a8Kd0Zq3XbV7mRtY5wLp"
    run = b"-".join([part] * 24)  # not opaque as a whole: its symbols are always the same
    text = b" ".join([run] * 100)
    assert [each.said for each in stretches(run)] == [part] * 24
    counts, found = [], ffi.new("struct psb_opaque *")
    while found.next < len(text):
        lib.psb_find_opaque(text, len(text), _expected(), found)
        counts.append(found.count)
    assert sum(counts) == 2400 and max(counts) <= lib.PSB_MOST_OPAQUE, counts


def test_what_an_alphabet_gives_is_what_chance_gives() -> None:
    for symbols, length in ((10, 20), (16, 40), (64, 100)):
        drawn = [_bits(CHANCE.choices(range(symbols), k=length)) for _ in range(2000)]
        assert abs(sum(drawn) / len(drawn) - expected_bits(symbols, length)) < 0.02


def _bits(drawn: list[int]) -> float:
    from math import log2

    return -sum(drawn.count(each) / len(drawn) * log2(drawn.count(each) / len(drawn)) for each in set(drawn))


def test_no_text_makes_a_line_of_each_of_its_escapes() -> None:
    """A million lines, each with an escape, cost what one line with as many does, give or take."""
    from time import process_time

    def cost(text: bytes) -> float:
        begun = process_time()
        list(stretches(text))
        return process_time() - begun

    one, many = (min(cost(each * 300_000) for _ in range(3)) for each in (b"&#1 ", b"&#1\n"))
    assert many < 20 * one + 0.05
