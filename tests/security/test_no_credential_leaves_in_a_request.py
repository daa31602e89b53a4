"""Claim: where what is sent is scanned, no byte of a credential reaches a host that it is not for: in no place of a
request, in no encoding, however it is cut; and what is told of it never has the value.
"""

from __future__ import annotations

import base64
import gzip
import os
import random
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

import brotli
import pytest
from backports import zstd

from _support.inspected import NAME
from _support.scanned import TOKEN, ScannedHost, chunked, get, post, scanned
from pysandbox.dlp import registry

REFUSED = b"x-pysandbox-error: dlp-blocked\r\n"
HALF = len(TOKEN) // 2


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ScannedHost]:
    with scanned(tmp_path_factory.mktemp("scanned")) as made:
        yield made


@pytest.fixture(autouse=True)
def clean(host: ScannedHost) -> None:
    host.server.heard.clear()
    host.asking.events.clear()


def is_refused(host: ScannedHost, *pieces: bytes) -> None:
    answer = host.send(pieces)
    assert answer.startswith(b"HTTP/1.1 451 ") and REFUSED in answer, (pieces, answer)
    assert host.server.heard == b"" and TOKEN not in answer


def test_what_has_no_credential_in_it_arrives(host: ScannedHost) -> None:
    """The control."""
    assert host.send([get(b"/a?b=c", b"Cookie: d=e")]).endswith(b"hello")
    assert b"GET /a?b=c HTTP/1.1\r\n" in host.server.heard and b"Cookie: d=e" in host.server.heard
    body = random.Random(1).randbytes(300_000)
    assert host.send([post(body)]).endswith(b"hello")
    assert host.server.heard.endswith(body)
    assert host.send([chunked(body, 1000, b"X-Sum: 1")]).endswith(b"hello")
    assert b"X-Sum: 1\r\n" in host.server.heard and host.found() == []


PLACES: dict[str, Callable[[], bytes]] = {
    "the method": lambda: get().replace(b"GET ", TOKEN + b" ", 1),
    "the path": lambda: get(b"/a/" + TOKEN),
    "a query value": lambda: get(b"/?a=1&b=" + TOKEN),
    "a query key": lambda: get(b"/?" + TOKEN + b"=1"),
    "query values, split": lambda: get(b"/?a=" + TOKEN[:HALF] + b"&b=" + TOKEN[HALF:]),
    "path, split": lambda: get(b"/" + TOKEN[:HALF] + b"/" + TOKEN[HALF:]),
    "the name of a field": lambda: get(b"/", TOKEN + b": 1"),
    "a field": lambda: get(b"/", b"X-A: " + TOKEN),
    "User-Agent": lambda: get(b"/", b"User-Agent: curl " + TOKEN),
    "Referer": lambda: get(b"/", b"Referer: https://x.example/?t=" + TOKEN),
    "two fields": lambda: get(b"/", b"X-A: " + TOKEN[:HALF], b"X-B: " + TOKEN[HALF:]),
    "a cookie": lambda: get(b"/", b"Cookie: a=1; b=" + TOKEN),
    "two cookies": lambda: get(b"/", b"Cookie: a=" + TOKEN[:HALF] + b"; b=" + TOKEN[HALF:]),
    "Bearer": lambda: get(b"/", b"Authorization: Bearer " + TOKEN),
    "Basic": lambda: get(b"/", b"Authorization: Basic " + base64.b64encode(b"x:" + TOKEN)),
    "Basic, split": lambda: get(
        b"/", b"Authorization: Basic " + base64.b64encode(TOKEN[:HALF] + b":" + TOKEN[HALF:])
    ),
    "a long head": lambda: get(b"/", *(b"X-%d: %s" % (n, b"a" * 200) for n in range(60)), b"X-A: " + TOKEN),
    "Proxy-Authorization": lambda: get(b"/", b"Proxy-Authorization: " + TOKEN),
    "percent": lambda: get(b"/?a=" + b"".join(b"%%%02x" % each for each in TOKEN)),
    "percent, thrice": lambda: get(b"/?a=" + b"".join(b"%%2525%02x" % each for each in TOKEN)),
    "hex in a field": lambda: get(b"/", b"X-A: " + TOKEN.hex().encode()),
    "a body": lambda: post(TOKEN),
    "JSON": lambda: post(b'{"a": ["b", {"c": "d ' + TOKEN + b'"}]}', b"Content-Type: application/json"),
    "a file name": lambda: post(
        b'--b\r\nContent-Disposition: form-data; name="f"; filename="' + TOKEN + b'"\r\n\r\nx\r\n--b--\r\n'
    ),
    "a trailer": lambda: chunked(b"x" * 100, 10, b"X-A: " + TOKEN),
    "chunks of one byte": lambda: chunked(b"{" + TOKEN + b"}", 1),
    "Content-Encoding gzip": lambda: post(gzip.compress(b"x" * 99 + TOKEN), b"Content-Encoding: gzip"),
    "deflate": lambda: post(zlib.compress(TOKEN), b"Content-Encoding: deflate"),
    "deflate, raw": lambda: post(zlib.compress(TOKEN)[2:-4], b"Content-Encoding: deflate"),
    "gzip, twice": lambda: post(gzip.compress(gzip.compress(TOKEN)), b"Content-Encoding: gzip, gzip"),
    "Content-Encoding br": lambda: post(brotli.compress(b"x" * 99 + TOKEN), b"Content-Encoding: br"),
    "Content-Encoding zstd": lambda: post(zstd.compress(b"x" * 99 + TOKEN), b"Content-Encoding: zstd"),
    "zstd in base64": lambda: post(base64.b64encode(zstd.compress(TOKEN))),
    "base32": lambda: post(b"key=" + base64.b32encode(TOKEN)),
    "names of HTML": lambda: post(TOKEN.replace(b"_", b"&amp;lowbar;")),
    "gzip, unsaid": lambda: post(b"PREFIX" + gzip.compress(TOKEN)),
    "the second member of a gzip": lambda: post(
        gzip.compress(b"a") + gzip.compress(TOKEN), b"Content-Encoding: gzip"
    ),
    "UTF-16": lambda: post(TOKEN.decode().encode("utf-16")),
    "beside a byte that is none of UTF-8": lambda: post(b"\xff" + TOKEN + b"\xfe"),
    "base64 in base64": lambda: post(base64.b64encode(base64.b64encode(b"key " + TOKEN))),
}  # fmt: skip


@pytest.mark.parametrize("place", PLACES)
def test_in_no_place_does_it_leave(host: ScannedHost, place: str) -> None:
    before = host.asking.session.ledger.counts.get("gatekeeper.credential_found", 0)
    is_refused(host, PLACES[place]())

    assert {(each["detector"], each["verdict"]) for each in host.found()} <= {("github_pat", "blocked")}
    assert host.asking.session.ledger.counts["gatekeeper.credential_found"] > before
    assert TOKEN.decode() not in str(host.asking.events)
    assert ("dlp", "dlp.github_pat") in host.asking.refused()


@pytest.mark.parametrize("at", range(0, len(TOKEN) + 1, 5))
def test_however_it_is_cut(host: ScannedHost, at: int) -> None:
    whole = post(b"a b c " + TOKEN + b" d")
    cut = whole.index(TOKEN) + at
    is_refused(host, whole[:cut], whole[cut:])


def test_dripped(host: ScannedHost) -> None:
    whole = post(b"a" + base64.b64encode(TOKEN) + b"a")
    is_refused(host, *(whole[at : at + 1] for at in range(len(whole))))


@pytest.mark.parametrize(
    "filling", [b"A", b"a1", b"secret-is-the-", b"0123456789", b"A1b2C3d4E5f6G7h8J9k0", b"_", TOKEN]
)
def test_letters_around_it_hide_nothing(host: ScannedHost, filling: bytes) -> None:
    """A short token in the middle of random data is chance (`dlp.chance`); these are none."""
    around = (filling * 2000)[:2000]
    is_refused(host, post(around + TOKEN + around))
    is_refused(host, get(b"/" + around[:300] + TOKEN + around[:300]))


def test_in_the_second_of_two_requests_that_came_at_once(host: ScannedHost) -> None:
    answer = host.send([get(b"/first") + get(b"/?t=" + TOKEN)], answers=2)
    assert b"hello" in answer and REFUSED in answer
    assert b"/first" in host.server.heard and TOKEN[:12] not in host.server.heard


def test_what_cannot_be_looked_at_is_refused(host: ScannedHost) -> None:
    whole = gzip.compress(os.urandom(100))
    bodies = {
        "unknown": post(b"x", b"Content-Encoding: lzma"), "no brotli": post(TOKEN, b"Content-Encoding: br"),
        "lying": post(b"x", b"Content-Encoding: gzip"),
        "cut off": post(whole[:-9], b"Content-Encoding: gzip"), "more": post(whole + b"x", b"Content-Encoding: gzip"),
        "a bomb": post(gzip.compress(bytes(1 << 24)), b"Content-Encoding: gzip"),
        "stacked": post(whole, b"Content-Encoding: gzip, gzip, gzip, gzip, gzip, gzip"),
        "a bomb of brotli": post(brotli.compress(bytes(1 << 28)), b"Content-Encoding: br"),
        "a bomb of zstd": post(zstd.compress(bytes(1 << 28)), b"Content-Encoding: zstd"),
        "more than its budget": post(gzip.compress(b"0123456789" * (1 << 20))),
    }  # fmt: skip
    for name, body in bodies.items():
        host.server.heard.clear()
        answer = host.send([body])
        assert answer.startswith(b"HTTP/1.1 451 ") and b"x-pysandbox-dlp-reason: undecodable-body" in answer, name
        assert host.server.heard == b"", name


def test_what_is_told_says_where_and_what_and_never_the_value(host: ScannedHost) -> None:
    answer = host.send([post(b'{"messages": [{"content": "hi"}, {"content": "my key: ' + TOKEN + b'"}]}')])
    assert b"x-pysandbox-dlp-detector: github_pat\r\n" in answer
    (told,) = host.found()
    assert (told["place"], told["host"]) == ("body json $.messages[1].content", NAME)
    assert str(told["shown"]).startswith("ghp_...#") and str(told["shown"]).encode() in answer
    for other in ("a query value", "the path", "the method"):
        host.send([PLACES[other]()])
    assert TOKEN.decode() not in str(host.asking.events) + str(host.asking.session.ledger.denials())


def test_a_body_that_is_longer_than_what_is_looked_at_together(tmp_path: Path) -> None:
    from _support.scanned import SCAN
    from pysandbox.shapes import replace

    noise = random.Random(2).randbytes(1 << 20)
    with scanned(tmp_path, replace(SCAN, whole=0)) as host:
        assert host.send([post(noise)]).endswith(b"hello")  # the control
        assert host.server.heard.endswith(noise)
        assert host.send([chunked(noise, 70_000)]).endswith(b"hello")
        for at in (1 << 18, (1 << 18) - 20, (1 << 18) - (1 << 16), 3 << 17, len(noise)):
            for said in (TOKEN, base64.b64encode(base64.b64encode(TOKEN))):
                host.server.heard.clear()
                answer = host.send([post(noise[:at] + b" " + said + b" " + noise[at:])])
                assert REFUSED in answer or answer == b""  # what has begun to leave is cut off
                assert said[:12] not in host.server.heard
        compressed = gzip.compress(random.Random(3).randbytes(600_000) + TOKEN)
        answer = host.send([post(noise[:100] + compressed)])
        assert b"undecodable-body" in answer


def test_every_credential(host: ScannedHost) -> None:
    """A sample by seed of credentials, places and ways to write them; more of them in the unit tests."""
    drawn = random.Random(20)
    for _ in range(25):
        kind = drawn.choice(registry.ALL)
        said = drawn.choice(kind.hits)
        for _ in range(drawn.randrange(3)):
            said = drawn.choice((base64.b64encode, base64.urlsafe_b64encode, lambda each: each.hex().encode()))(said)
        request = drawn.choice([
            get(b"/?a=" + base64.urlsafe_b64encode(said)), get(b"/", b"X-A: " + said.replace(b"\n", b"")),
            post(b'{"a": "' + said + b'"}'), chunked(b"text " + said, drawn.randrange(1, 50)),
            post(gzip.compress(said), b"Content-Encoding: gzip"),
        ])  # fmt: skip
        cut = drawn.randrange(len(request))
        answer = host.send([request[:cut], request[cut:]])
        assert REFUSED in answer, (kind.name, request)
