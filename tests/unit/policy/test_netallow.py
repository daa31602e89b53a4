"""Entries of a network allow list."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pysandbox.policy.netallow import entry
from pysandbox.policy.refusal import CommandRefused


@pytest.mark.parametrize(
    ("value", "canonical"),
    [
        ("example.com", "example.com"),
        ("Example.COM.", "example.com"),
        ("example.com:443", "example.com:443"),
        ("*.bandcamp.com", "*.bandcamp.com"),
        ("**.example.com:8443", "**.example.com:8443"),
        ("localhost", "localhost"),
        ("xn--bcher-kva.example", "xn--bcher-kva.example"),
        ("_dmarc.example.com", "_dmarc.example.com"),
        ("198.51.100.7", "198.51.100.7"),
        ("198.51.100.7:80", "198.51.100.7:80"),
        ("10.0.0.0/8", "10.0.0.0/8"),
        ("2001:DB8::1", "2001:db8::1"),
        ("2001:db8::/32", "2001:db8::/32"),
        ("[2001:db8::1]:443", "[2001:db8::1]:443"),
        ("[::1]", "::1"),
    ],
)
def test_a_valid_entry_is_brought_to_its_canonical_form(value, canonical):
    assert entry(value) == canonical
    assert entry(canonical) == canonical


@pytest.mark.parametrize(
    "value",
    [
        "openai:gpt-4", "anthropic:claude", "a:b:c", "example.com:", "example.com:https", "example.com:0",
        "example.com:65536", "example.com:٤٤٣", "10.0.0.8x", "10.0.0.8 ", "10.0.0.8.9", "10.0.0.256", "10.0.0.1/8",
        "10.0.0.0/33", "10.0.0.0/8/9", "010.0.0.1", "10.1", "1", "0x7f.1", "0x7f000001", "[::1", "::1]", "[10.0.0.1]",
        "[::1]x", "[::1]:99999", "fe80::1%eth0", "2001:db8::g", "", "*", "**", "*.", "*example.com", "a.*.com",
        "***.example.com", "-a.com", "a-.com", "a..com", ".com", "a b.com", "a\n.com", "a\0.com", "bücher.example",
        "http://example.com", "example.com/path", "user@example.com", "a" * 64 + ".com", "a." * 127 + "aa", None, 7,
    ],
)  # fmt: skip
def test_anything_else_is_refused_and_named(value):
    with pytest.raises(CommandRefused) as caught:
        entry(value)
    assert not isinstance(value, str) or len(value) > 50 or not value or repr(value) in caught.value.message


@settings(max_examples=200, deadline=None)
@given(st.text(st.sampled_from("0123456789abx.*:/[]%- ٤é"), max_size=20))
def test_no_text_fails_otherwise_and_what_passes_is_canonical(value):
    try:
        canonical = entry(value)
    except CommandRefused:
        return
    assert entry(canonical) == canonical
    assert canonical.isascii()
    assert "," not in canonical
