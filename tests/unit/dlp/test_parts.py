"""A long text is looked at in parts where that loses nothing: wherever something stands, and however it is encoded."""

from __future__ import annotations

import base64
import gzip
import json
import random
import re
from itertools import pairwise
from urllib.parse import quote_from_bytes

import pytest

from pysandbox.dlp import registry
from pysandbox.dlp.engine import scan
from pysandbox.dlp.passes import AROUND, PART, parts, unescaped_parts

KEY = b"k" * 16
TOKEN = registry.BY_NAME["github_pat"].hits[0]
NOISE = bytes(range(128, 256)) * 30 + b" "
BLOCK = b'{"a": "some words, (and more) of it\\n"}, '


def filled(size: int) -> bytes:
    """One line of JSON, with escapes and places to cut."""
    return (BLOCK * (size // len(BLOCK) + 1))[:size]


def found(text: bytes) -> set[str]:
    return {each.detector for each in scan(text, KEY)}


def test_parts_are_all_of_a_text_and_share_what_is_around_their_ends() -> None:
    text = filled(3 * PART)
    cuts = list(parts(text))
    assert cuts[0][0] == 0 and cuts[-1][1] == len(text) and len(cuts) > 2
    for (_, end), (begin, _) in pairwise(cuts):
        assert begin == end - AROUND and text[end - 1 : end] in (b'"', b"(", b")")
    assert list(parts(b"A" * 3 * PART)) == [(0, 3 * PART)]  # nowhere to cut


def escaped(said: bytes) -> bytes:
    return b"".join(b"\\u%04x" % each for each in said)


@pytest.mark.parametrize("way", [
    escaped, lambda said: escaped(base64.b64encode(said)), lambda said: b"\\u0067" + said[1:],
    lambda said: json.dumps(said[:7].decode() + "\u200b" + said[7:].decode()).encode(),
    lambda said: (said[:7].decode() + "\u200b" + said[7:].decode()).encode(),
    lambda said: b"\\n".join(re.findall(b".{1,76}", base64.b64encode(NOISE + said + b" " + NOISE))),
])  # fmt: skip
def test_a_token_is_found_wherever_a_part_ends(way: object) -> None:
    said = way(TOKEN)  # type: ignore[operator]
    for before in (*range(PART - len(said) - 60, PART + 60, max(len(said) // 7, 1)), PART - AROUND, 2 * PART - 5):
        assert "github_pat" in found(filled(before) + said + filled(AROUND)), before
    assert found(filled(PART) + filled(AROUND)) == set()


def test_what_is_compressed_is_never_cut() -> None:
    """Nor where all of it is one line that has places to cut throughout."""
    hidden = gzip.compress(random.Random(7).randbytes(PART) + b" " + TOKEN)
    text = filled(PART - 99) + quote_from_bytes(hidden, safe="'(").encode() + filled(PART)
    assert len(list(parts(text))) > 3  # the control: it could be cut
    assert "github_pat" in found(text)


def test_escapes_of_lines_are_those_of_the_lines_that_have_some() -> None:
    text = b"\n".join([b"plain", b"\\u0041bc", b"plain (again)"] * (PART // 10))
    plain = b"".join(each for each in unescaped_parts(text) if each)
    assert b"plain" not in plain and plain.count(b"Abc") >= PART // 10
