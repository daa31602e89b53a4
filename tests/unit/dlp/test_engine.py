"""A credential is found through encodings, and whatever does not fit the budget is never said to be clean."""

from __future__ import annotations

import base64
import binascii
import gzip
import html
import json
import random
import re
import time
import zlib
from collections.abc import Callable
from urllib.parse import quote

import pytest
from backports import zstd
from hypothesis import given, settings
from hypothesis import strategies as st

from pysandbox.dlp import libraries, registry
from pysandbox.dlp.decode import inflated
from pysandbox.dlp.engine import DEPTH, Finding, scan
from pysandbox.dlp.nominate import Nominator
from pysandbox.dlp.work import MORE, Undecodable

KEY = b"k" * 16
TOKEN = registry.BY_NAME["github_pat"].hits[0]
NAMES = {ord("_"): b"&lowbar;", ord("-"): b"-", ord("."): b"&period;", ord("/"): b"&sol;", ord(":"): b"&colon;"}
ENCODINGS: dict[str, Callable[[bytes], bytes]] = {
    "plain": bytes,
    "base64": base64.b64encode,
    "base64, unpadded": lambda said: base64.b64encode(said).rstrip(b"="),
    "base64, url": base64.urlsafe_b64encode,
    "base64, wrapped": base64.encodebytes,
    "base64, wrapped with CRLF": lambda said: base64.encodebytes(said).replace(b"\n", b"\r\n"),
    "hex": binascii.hexlify,
    "hex, upper": lambda said: binascii.hexlify(said).upper(),
    "hex, colons": lambda said: binascii.hexlify(said, ":"),
    "hex, blanks": lambda said: binascii.hexlify(said, " "),
    "hex, as in C": lambda said: b"".join(b"\\x%02x" % each for each in said),
    "hex, as in Go": lambda said: b", ".join(b"0x%02x" % each for each in said),
    "percent": lambda said: b"".join(b"%%%02X" % each for each in said),
    "percent, what has to be": lambda said: quote(said).encode(),
    "JSON": lambda said: b"".join(b"\\u%04x" % each for each in said),
    "JSON, braces": lambda said: b"".join(b"\\u{%x}" % each for each in said),
    "octal": lambda said: b"".join(b"\\%03o" % each for each in said),
    "HTML": lambda said: b"".join(b"&#%d;" % each for each in said),
    "HTML, hex": lambda said: b"".join(b"&#x%X;" % each for each in said),
    "HTML, names": lambda said: b"".join(NAMES.get(each, b"%c" % each) for each in said),
    "base32": base64.b32encode,
    "base32, small": lambda said: base64.b32encode(said).rstrip(b"=").lower(),
    "quoted-printable": lambda said: b"".join(b"=%02X" % each for each in said),
    "gzip": gzip.compress,
    "zlib": zlib.compress,
    "zstd": zstd.compress,
}
BINARY = ("gzip", "zlib", "zstd")
TEXTUAL = [name for name in ENCODINGS if name not in BINARY]
OF_CHARACTERS = ("JSON", "JSON, braces", "HTML", "HTML, hex", "HTML, names")  # and not of bytes
AROUND = (b'{"a": "%s"}', b"x=1&key=%s&y=2", b"prefix/%s", b"log line\n%s\nlog line", b"\xff\xfe\x80%s\x80")


def found(text: bytes) -> set[str]:
    return {each.detector for each in scan(text, KEY)}


def wrapped(around: bytes, said: bytes) -> bytes:
    before, _, after = around.partition(b"%s")
    return before + said + after


def fit(inner: str, outer: str) -> bool:
    return not (inner in BINARY and outer in OF_CHARACTERS)


@pytest.mark.parametrize("outer", ENCODINGS)
def test_a_token_is_found_in_two_encodings(outer: str) -> None:
    for inner in ENCODINGS:
        if fit(inner, outer):
            is_found(inner, outer)


def is_found(inner: str, outer: str) -> None:
    said = ENCODINGS[outer](ENCODINGS[inner](TOKEN))
    for around in AROUND:
        assert "github_pat" in found(wrapped(around, said)), (inner, around)


def test_every_vector_is_found_in_every_encoding() -> None:
    """Three encodings inside each other, drawn anew for each vector; all of one are tried in the other test."""
    drawn = random.Random(14)
    for detector in registry.ALL:
        for hit in detector.hits:
            names = [drawn.choice(TEXTUAL), drawn.choice(["base64", "hex", "percent"]), drawn.choice(list(ENCODINGS))]
            said = hit
            for name in reversed(names):
                said = ENCODINGS[name](said)
            assert detector.name in found(b"a: " + said + b"\n"), (detector.name, names)


def test_a_token_is_found_wherever_in_a_run_of_base64_it_begins() -> None:
    for before in range(9):
        assert "github_pat" in found(base64.b64encode(b"\xfb" * before + TOKEN)), before
        assert "github_pat" in found(b"A" * before + base64.b64encode(TOKEN)), before


def test_base64_with_blanks_is_found_in_a_small_text() -> None:
    said = base64.b64encode(TOKEN).decode()
    assert "github_pat" in found(b"the key: " + b" ".join(said[at : at + 4].encode() for at in range(0, len(said), 4)))


@pytest.mark.parametrize("coding", ["utf-16", "utf-16-be", "utf-32-le", "utf-8-sig"])
def test_wide_characters_hide_nothing(coding: str) -> None:
    assert "github_pat" in found(TOKEN.decode().encode(coding))
    assert "github_pat" in found(base64.b64encode(TOKEN.decode().encode(coding)))


@pytest.mark.parametrize("mark", "\u200b\u200d\u2060\ufeff\u00ad\u0301\ufe0f\u202e\U000e0061")
def test_what_cannot_be_seen_hides_nothing(mark: str) -> None:
    said = TOKEN[:9].decode() + mark + TOKEN[9:].decode()
    assert "github_pat" in found(said.encode())
    assert "github_pat" in found(json.dumps(said).encode())


def test_letters_that_look_alike_hide_nothing() -> None:
    said = TOKEN.decode().replace("p", "\u0440").replace("A", "\u0410")
    assert "github_pat" in found(f"key {said}".encode())
    assert "github_pat" in found("".join(chr(ord(each) + 0xFEE0) for each in TOKEN.decode()).encode())


def test_an_encoding_of_an_encoding_is_undone_to_the_end() -> None:
    said = TOKEN
    for _ in range(10):
        said = base64.b64encode(said)
    assert scan(said, KEY)[0].via == ("base64",) * 10
    for _ in range(20):
        said = quote(said, safe="").encode()
    assert "github_pat" in found(said)


def test_a_find_names_its_detector_and_never_its_value() -> None:
    (each,) = scan(b"a " + base64.b64encode(TOKEN), KEY)
    assert each == Finding("github_pat", ("base64",), each.fingerprint)
    assert each.fingerprint.startswith("ghp_...#") and TOKEN[4:12].decode() not in repr(each)


def test_a_fingerprint_is_of_its_key() -> None:
    same, other = scan(TOKEN, KEY), scan(TOKEN, b"another key")
    assert scan(b"again " + TOKEN, KEY) == same and other[0].fingerprint != same[0].fingerprint


def test_a_bearer_that_is_something_particular_counts_as_that() -> None:
    assert found(b"Authorization: Bearer " + TOKEN) == {"github_pat"}
    assert found(b"Authorization: Bearer " + TOKEN + b"andmore") == {"github_pat", "bearer_token"}
    assert found(b"Authorization: Bearer x" + TOKEN) == {"github_pat", "bearer_token"}
    assert found(b"a=Bearer+" + b"x" * 30) == {"bearer_token"}


# ---- what is broken ----------------------------------------------------------------------------------------------


def checked_zstd(said: bytes) -> bytes:
    made = zstd.ZstdCompressor(options={zstd.CompressionParameter.checksum_flag: 1})
    return made.compress(said, mode=made.FLUSH_FRAME)


CHECKED = {"gzip": (gzip.compress, 8), "zlib": (zlib.compress, 4), "zstd": (checked_zstd, 4)}


def noise(size: int) -> bytes:
    return bytes(random.Random(size).choices(b"abcdefgh ", k=size))


@pytest.mark.parametrize("after", [b"", b"!", b"\xff" * 1500])
@pytest.mark.parametrize("size", [0, 1, 500, 65_400, 65_536, 200_000])
@pytest.mark.parametrize("name", CHECKED)
def test_a_wrong_checksum_hides_nothing(name: str, size: int, after: bytes) -> None:
    """Readers there are that mind none. Nothing of the token stands there as it is: it is made of what came before."""
    compress, length = CHECKED[name]
    whole = compress(noise(size) + b" %s %s %s\n" % (TOKEN[:25], TOKEN[15:], TOKEN) + noise(size))
    assert found(whole) == {"github_pat"} and not found(whole[:10])
    assert found(whole[:-length] + bytes(length) + after) == {"github_pat"}


@pytest.mark.parametrize("name", ["gzip", "zlib"])
def test_what_comes_before_an_error_is_looked_at(name: str) -> None:
    whole = ENCODINGS[name](TOKEN + b" " + noise(5000))
    for at in range(150, len(whole), 29):
        assert found(whole[:at] + bytes((whole[at] ^ 0xFF,)) + whole[at + 1 :]) == {"github_pat"}


@pytest.mark.parametrize("most", [1, 3, 64])
def test_an_error_that_comes_when_nothing_is_fed_any_more_is_an_end(most: int) -> None:
    stream = libraries.LenientZlib(15)
    said = stream.decompress(b"x\x9cc|dI`\x0c\x8a", most)
    while not (stream.eof or stream.needs_input):
        said += stream.decompress(b"", most)
    assert said[:1] == zlib.decompressobj(15).decompress(b"x\x9cc|dI`\x0c\x8a", 1)


def test_what_is_broken_is_charged_for_the_parts_in_which_it_is_tried() -> None:
    broken = zlib.compress(noise(300), 9)[:-4] + bytes(4)
    with pytest.raises(Undecodable):
        scan(broken * 1000, KEY)


# ---- budgets -----------------------------------------------------------------------------------------------------


def bomb() -> bytes:
    return gzip.compress(bytes(64 << 20))


@pytest.mark.parametrize(
    "text",
    [
        bomb(), base64.b64encode(bomb()), zstd.compress(bytes(64 << 20)), b"\x28\xb5\x2f\xfd" * 40_000,
        b"%" + b"25" * 40 + b"41",
        b"".join(gzip.compress(b"%d" % at + bytes(1 << 18)) for at in range(40)),
        b"\x1f\x8b\x08" * 40_000, b"Bearer " * 500_000,
    ],
    ids=["gzip", "gzip in base64", "zstd", "tries of zstd", "percent of percent", "decoys of gzip",
         "tries of gzip", "nominations"],
)  # fmt: skip
def test_past_its_budget_a_scan_is_refused(text: bytes) -> None:
    with pytest.raises(Undecodable):
        scan(text, KEY)


def test_many_members_cost_no_more_than_their_number() -> None:
    """Four times as many in a blob, and not sixteen times the processor time; the best of several."""

    def cost(count: int) -> float:
        blob = gzip.compress(b"x") * count
        began = time.thread_time()
        assert sum(1 for _ in inflated(blob, lambda size: None)) >= count
        return time.thread_time() - began

    small, large = (min(cost(count) for _ in range(3)) for count in (5_000, 20_000))
    assert large < 9 * small


def test_encodings_inside_each_other_are_counted() -> None:
    said = b"\xff" + TOKEN
    for _ in range(5):
        said = base64.b64encode(said)
    with pytest.raises(Undecodable, match="inside each other"):
        scan(said, KEY, depth=3)
    assert DEPTH == 32


def test_decoys_hide_nothing() -> None:
    decoys = b"\n".join(base64.b64encode(b"a decoy, number %d, for whoever counts" % at) for at in range(2000))
    assert "github_pat" in found(decoys + b"\n\n" + base64.b64encode(TOKEN))
    homely = b"\n".join(registry.BY_NAME["github_pat"].hits[0][:-5] + b"%05d" % at for at in range(1000))
    assert found(homely + registry.BY_NAME["npm_token"].hits[0]) == {"github_pat", "npm_token"}


@pytest.mark.parametrize("size", [0, 1, 15, 16, 17, 4095, 4096, 4097, MORE])
def test_any_size_is_scanned(size: int) -> None:
    assert scan(random.Random(size).randbytes(size), KEY) == ()


def test_what_no_library_is_there_for_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    said = b"text " + zstd.compress(b"nothing")
    assert scan(said, KEY) == ()
    monkeypatch.setattr(libraries, "zstd", None)
    for text in (said, base64.b64encode(said)):
        with pytest.raises(Undecodable, match="library is missing"):
            scan(text, KEY)


# ---- what is no leak ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        b"www.example.com", b"ghp_short", b"x7f3k9q2.example.com", base64.b64encode(b"short"), b"Bearer token",
        b"550e8400-e29b-41d4-a716-446655440000", b"sha256:" + b"0a1b2c3d" * 8,
        base64.b64encode(random.Random(1).randbytes(1 << 20)), random.Random(2).randbytes(1 << 20),
        b"\n".join(b"%d, %f" % (at, at / 7) for at in range(20_000)),
    ],
)  # fmt: skip
def test_ordinary_things_are_no_leak(text: bytes) -> None:
    assert found(text) == set()


@settings(deadline=None)
@given(st.binary(max_size=400))
def test_any_bytes_are_scanned_or_refused(blob: bytes) -> None:
    scan(blob, KEY)


@settings(deadline=None)
@given(st.text(alphabet="ghp_AKI-%=\\u&#x0\n ABCDEFabcdef0123456789+/", max_size=200))
def test_any_text_of_its_own_letters_is_scanned(text: str) -> None:
    scan(html.escape(text).encode(), KEY)


@settings(deadline=None)
@given(
    st.lists(st.sampled_from([*(each.literals[0] for each in registry.ALL), b"x", b"-", b"gh", b"\0"]), max_size=200)
)
def test_the_pass_in_c_finds_what_find_does(pieces: list[bytes]) -> None:
    text = b"".join(pieces)
    nominator = Nominator(registry.ALL)
    wanted = {
        (each.name, found.start())
        for each in registry.ALL for literal in each.literals
        for found in re.finditer(b"(?=%s)" % re.escape(literal), text)
    }  # fmt: skip
    assert {(each.name, at) for each, at in nominator.places(text)} == wanted
