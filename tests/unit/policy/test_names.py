"""One spelling for every host (T56), and what a pattern says of it (T03)."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address, ip_address

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pysandbox.policy.names import BadName, canonical, matches


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ("example.com", "example.com"), ("Example.COM", "example.com"), ("example.com.", "example.com"),
        (b"EXAMPLE.com.", "example.com"), ("_dmarc.example.com", "_dmarc.example.com"), ("localhost", "localhost"),
        ("xn--bcher-kva.example", "xn--bcher-kva.example"), ("bücher.example", "xn--bcher-kva.example"),
        ("BÜCHER.example", "xn--bcher-kva.example"), ("ｅxample.com", "example.com"), ("example。com", "example.com"),
        ("0x7f.1.example", "0x7f.1.example"), ("1.2.3.4.example.com", "1.2.3.4.example.com"), ("a1", "a1"),
    ],
)  # fmt: skip
def test_every_spelling_of_a_name_is_one(given, name):
    assert canonical(given) == name
    assert canonical(name) == name


@pytest.mark.parametrize(
    "given",
    [
        "127.0.0.1", "127.0.0.1.", "2130706433", "0x7f000001", "0X7F000001", "0177.0.0.1", "017700000001", "127.1",
        "127.0.1", "0x7f.1", "0x7f.0.0.0x1", "0000177.0.0.1", "::ffff:127.0.0.1", "[::ffff:7f00:1]",
        "[::FFFF:127.0.0.1]", b"127.1", "１２７.0.0.1", "127。0。0。1", "①27.1",
    ],
)  # fmt: skip
def test_every_spelling_of_an_address_is_that_address(given):
    assert canonical(given) == IPv4Address("127.0.0.1")


def test_ipv6_is_an_address_with_and_without_brackets():
    assert canonical("[2001:DB8::1]") == canonical("2001:db8:0::1") == IPv6Address("2001:db8::1")


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ("", "missing"), ("allowed.com\0.evil.com", "NUL"), (b"allowed.com\0", "NUL"), ("a b.com", "space"),
        ("a\r\n.com", "control"), ("\tx", "control"), ("x\x7f", "control"), ("user@allowed.com", "user information"),
        ("allowed.com@evil.com", "user information"), ("allowed.com%00.evil.com", "percent"), ("fe80::1%eth0", "zone"),
        ("evil.com/allowed.com", "slash"), ("evil.com#.allowed.com", "fragment"), ("evil.com?.allowed.com", "query"),
        ("evil.com\\.allowed.com", "backslash"), ("*.com", "star"), ("allowed.com:443", "port"),
        ("[127.0.0.1]", "IPv6"),
        ("[::1", "IPv6"), ("::1]", "IPv6"), ("[::1]:80", "port"), ("1.2.3.4.5", "whole address"),
        ("10.0.0.256", "too large"),
        ("256.1.1.1", "too large"), ("4294967296", "too large"), ("1.2.3.08", "whole address"), ("0x", "whole address"),
        ("1..2", "whole address"), ("allowed.1", "whole address"), ("a..com", "empty label"), (".com", "empty label"),
        ("..", "empty label"), (".", "empty label"), ("allowed.com..", "empty label"), ("a" * 64 + ".com", "63"),
        ("a." * 127 + "aa", "253"), ("x" * 5000, "far longer"), ("-a.com", "letters"), ("a-.com", "letters"),
        ("a+b.com", "letters"), ("straße.de", "two readings"), ("a\u200db.com", "two readings"),
        (b"\xff.com", "not text"),
        ("allowed.com＠evil.com", "user information"), ("\u00ad", "cannot be written"),
        ("\ud800.com", "cannot be written"),
        ("ｅvil.com／.allowed.com", "slash"), ("℀.com", "slash"),
    ],
)  # fmt: skip
def test_what_is_no_host_is_refused_with_the_reason(given, why):
    with pytest.raises(BadName, match=why):
        canonical(given)


@settings(max_examples=400, deadline=None)
@given(st.one_of(st.text(max_size=40), st.binary(max_size=40), st.text("0123456789abxX.:[]%@ -_é。", max_size=24)))
def test_whatever_passes_is_plain_and_stays_what_it_is(given):
    try:
        found = canonical(given)
    except BadName:
        return
    assert canonical(str(found)) == found
    if isinstance(found, str):
        assert found.isascii() and found == found.lower() and not set(found) & set("\0 @%/\\:[]*") and found[-1] != "."
        with pytest.raises(ValueError):
            ip_address(found)


@given(st.integers(0, 2**32 - 1), st.data())
def test_an_address_is_found_in_whatever_base_it_is_written(value, data):
    octets = value.to_bytes(4, "big")
    parts = data.draw(st.sampled_from([1, 2, 3, 4]))
    numbers = [*octets[: parts - 1], int.from_bytes(octets[parts - 1 :], "big")]
    written = ".".join(
        data.draw(st.sampled_from(["{:d}", "0{:o}", "0x{:x}", "0X{:X}"])).format(each) for each in numbers
    )
    assert canonical(written) == IPv4Address(value)


@pytest.mark.parametrize(
    ("pattern", "inside", "outside"),
    [
        ("allowed.com", ["allowed.com"], ["www.allowed.com", "allowed.com.evil.com", "evilallowed.com", "allowed.co"]),
        ("*.allowed.com", ["www.allowed.com"], ["allowed.com", "a.b.allowed.com", "evilallowed.com"]),
        ("**.allowed.com", ["a.allowed.com", "a.b.allowed.com"], ["allowed.com", "evilallowed.com"]),
    ],
)  # fmt: skip
def test_a_pattern_holds_what_it_says_and_nothing_that_looks_like_it(pattern, inside, outside):
    assert all(matches(pattern, each) for each in inside)
    assert not any(matches(pattern, each) for each in outside)


_labels = st.text("ab-", min_size=1, max_size=3)


@given(st.lists(_labels, min_size=1, max_size=5), st.lists(_labels, min_size=1, max_size=3))
def test_patterns_count_labels(name, domain):
    below = name[-len(domain) :] == domain
    depth = len(name) - len(domain)
    whole, host = ".".join(domain), ".".join(name)
    assert matches(whole, host) == (below and depth == 0)
    assert matches(f"*.{whole}", host) == (below and depth == 1)
    assert matches(f"**.{whole}", host) == (below and depth >= 1)
