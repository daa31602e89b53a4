"""gate/http/messages.py: where a request goes, and what is left of it when it is forwarded."""

from __future__ import annotations

import h11
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pysandbox.gate.http import http2
from pysandbox.gate.http import messages as http
from pysandbox.gate.http.messages import Authority, BadRequest
from pysandbox.gate.tcp.target import DialTarget


def request(target: str, *headers: tuple[str, str], method: str = "GET", version: str = "1.1") -> h11.Request:
    if not any(name == "Host" for name, _ in headers) and version == "1.1":
        headers = (("Host", ""), *headers)
    return h11.Request(method=method, target=target, headers=list(headers), http_version=version)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (b"Example.com", Authority("example.com", None)), (b"example.com.:80", Authority("example.com", 80)),
        (b"[::1]:8080", Authority("::1", 8080)), (b"[::ffff:127.0.0.1]", Authority("127.0.0.1", None)),
        (b"0x7f.1:80", Authority("127.0.0.1", 80)), (b"example.com:", Authority("example.com", None)),
    ],
)  # fmt: skip
def test_an_authority_has_one_reading(text: bytes, expected: Authority) -> None:
    assert http.authority(text) == expected


@pytest.mark.parametrize(
    "text",
    [b"", b":80", b"a@b", b"a:b@c:1", b"a:0", b"a:65536", b"a:+1", b"a: 1", b"a:1:2", b"[::1", b"[::1]x", b"a/b",
     b"a\\b", b"example.com:000080", b"a#b", b"a%00b", b"\xe2\x84\xaa:1x"],
)  # fmt: skip
def test_what_is_no_authority_is_refused(text: bytes) -> None:
    with pytest.raises(BadRequest):
        http.authority(text)


@given(st.binary(max_size=60))
def test_any_bytes_are_an_authority_or_refused(text: bytes) -> None:
    try:
        found = http.authority(text)
    except BadRequest:
        return
    assert http.authority(http.host_header(DialTarget(found.host, found.port or 80))).host == found.host


@pytest.mark.parametrize(
    ("target", "path"),
    [
        ("http://a.com", b"/"),
        ("HTTP://a.com/x?y#z", b"/x?y"),
        ("http://a.com?q", b"/?q"),
        ("http://a.com:80/http://b/", b"/http://b/"),
    ],
)
def test_an_absolute_target_is_taken_apart(target: str, path: bytes) -> None:
    assert http.absolute_target(request(target)) == (DialTarget("a.com", 80), path)


@pytest.mark.parametrize(
    "target", ["/", "*", "a.com", "https://a.com/", "ftp://a.com/", "http:///x", "http://u@a.com/", "http://a.com:443/",
               "http://a.com\\@b.com/"],
)  # fmt: skip
def test_what_cannot_be_forwarded_says_so(target: str) -> None:
    with pytest.raises(BadRequest):
        http.absolute_target(request(target))


def test_what_is_between_two_neighbours_stays_there() -> None:
    asked = request(
        "http://a.com/", ("Host", "a.com"), ("Connection", "close, X-Hop, Host, Content-Length"), ("X-Hop", "1"),
        ("TE", "trailers"), ("Proxy-Authorization", "x"), ("Keep-Alive", "1"), ("Content-Length", "3"), ("X-Kept", "1"),
        ("Upgrade", "h2c, HTTP/2.0, TLS/1.0"), ("HTTP2-Settings", "x"), method="POST",
    )  # fmt: skip
    said = http.forwarded(asked, b"/", b"a.com")
    assert said.headers == [(b"host", b"a.com"), (b"content-length", b"3"), (b"x-kept", b"1")]


@pytest.mark.parametrize("path", [b"/a b", b"/a\r\nX: 1", b"/\x7f", b"/\0"])
def test_a_target_that_would_break_the_line_is_refused(path: bytes) -> None:
    with pytest.raises(BadRequest):
        http.forwarded(request("/"), path, b"a.com")


@pytest.mark.parametrize(
    ("rule", "status", "code"),
    [
        ("host", 415, b"contract-refused"), ("host.ports", 415, b"contract-refused"),
        ("network.allow_ips", 403, b"policy-blocked"), ("network.allow_host_loopback", 403, b"policy-blocked"),
        ("policy_fn", 403, b"policy-blocked"),
    ],
)  # fmt: skip
def test_a_refusal_says_what_decided_and_what_would_allow_it(rule: str, status: int, code: bytes) -> None:
    from pysandbox.gate.rules import Decision

    response, body = http.blocked("evil.com:443 is not allowed", Decision(False, rule, "the line"))
    assert (b"x-pysandbox-error", code) in list(response.headers)
    assert b"the line" in body and response.status_code == status


def test_http_2_is_refused_in_its_own_words() -> None:
    """RFC 9113, 3.4 and 6.8."""
    settings, goaway = http2.refusal()[:9], http2.refusal()[9:]
    assert settings == bytes((0, 0, 0, 4, 0, 0, 0, 0, 0))
    assert (goaway[3], goaway[5:9], goaway[9:13], goaway[13:17]) == (7, bytes(4), bytes(4), b"\0\0\0\x0d")
    assert int.from_bytes(goaway[:3], "big") == len(goaway) - 9 and b"use HTTP/1.1" in goaway
