"""What the extension takes for plain words (csrc/host/repeats/plain_words.c) the sniffer takes for them too, whatever
comes after; the other way round it need not be so."""

from __future__ import annotations

import random

import pytest
from pysandbox._native import lib

from pysandbox.gate.tcp.sniff import Sniffer, Way
from pysandbox.gate.tcp.target import DialTarget

SEEDS = range(20)
EACH = 2000
PIECES = (
    b"GET", b"get", b"POST", b"PRI", b"x", b"!", b"/", b"*", b" ", b"\t", b"\r", b"\n", b"\r\n", b"\x0b", b"\x0c",
    b"\x1c", b"\x1f", b"\x85", b"\xa0", b"\0", b"\x16", b"\x16\3", b"\3", b"\x80", b"\x80\x2e\1\3", b"HTTP/1.1",
    b"http/0.9", b"HTTP", b"/index", b"PING\r\n", b"*1\r\n", b"\5\1\0", b"A" * 70, b":", b"\xff", b"{", b"\x7f",
    b"Host: evil.example\r\n",
)  # fmt: skip
PLAIN = (
    b"x\n",
    b"PING\r\n",
    b"*1\r\n$4\r\nPING\r\n",
    b"\0\0\0\x08\4\xd2\x16\x2f",
    b"SSH-2.0-OpenSSH_9.2\r\n",
    b"\x10\x0c\0\4MQTT",
)
NOT_PLAIN = (
    b"",
    b"GET / HTTP/1.1\r\n",
    b"\x16\3\1",
    b"\x16",
    b"half a line",
    b" GET / HTTP/1.1\r\n",
    b"\x80\x2e\1\3",
)


def is_plain(said: bytes) -> bool:
    return bool(lib.psb_is_plain(said, len(said)))


def sniffed(said: bytes, host: str = "name.example", port: int = 25) -> bool:
    sniffer = Sniffer(DialTarget(host, port), lambda *_: False)
    verdict = sniffer.read(said)
    return verdict is not None and verdict.way is Way.PASS and not sniffer.is_tls


@pytest.mark.parametrize("said", PLAIN)
def test_usual_words_are_plain(said: bytes) -> None:
    assert is_plain(said) and sniffed(said)


@pytest.mark.parametrize("said", NOT_PLAIN)
def test_words_that_have_to_be_looked_at_are_not(said: bytes) -> None:
    assert not is_plain(said)


@pytest.mark.parametrize("seed", SEEDS)
def test_what_is_plain_the_sniffer_passes(seed: int) -> None:
    chance, seen = random.Random(seed), 0
    for _ in range(EACH):
        said = b"".join(chance.choice(PIECES) for _ in range(chance.randint(1, 7)))
        if chance.random() < 0.2:
            said = bytes(chance.randrange(256) for _ in range(chance.randint(1, 12)))
        if is_plain(said):
            seen += 1
            assert sniffed(said) and sniffed(said, "10.0.0.1", 443), said
    assert seen > EACH // 20


def test_each_first_byte_is_judged_as_the_sniffer_does() -> None:
    for first in range(256):
        for rest in (b"", b"\n", b"/\n", b" / HTTP/1.1\n", b"\3\1", b"x" * 70 + b"/\n"):
            said = bytes((first,)) + rest
            assert not is_plain(said) or sniffed(said), said
