"""A head of CONNECT that was read once means the same when it comes again, and h11 has read each of them."""

from __future__ import annotations

import h11
import pytest

from pysandbox.gate.http.asked import LONGEST_KEPT, MOST_KEPT, AskedTunnels
from pysandbox.gate.tcp.target import DialTarget

HEAD = b"CONNECT name.example:25 HTTP/1.1\r\nHost: name.example:25\r\n\r\n"


def test_it_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    tunnels = AskedTunnels()
    asked = tunnels.read(HEAD)
    assert asked is not None and asked.target == DialTarget("name.example", 25)
    assert asked.answer.startswith(b"HTTP/1.1 200 ") and asked.answer.endswith(b"\r\n\r\n")
    monkeypatch.setattr(h11, "Connection", None)
    assert tunnels.read(HEAD) is asked


@pytest.mark.parametrize(
    "said",
    [
        HEAD[:-1],
        HEAD + b"x",
        HEAD + HEAD,
        HEAD.replace(b"Host: name", b"Host: other"),
        HEAD.replace(b":25 ", b" "),
        HEAD.replace(b"CONNECT", b"GET"),
        HEAD.replace(b"CONNECT", b"connect"),
        HEAD.replace(b"\r\nHost", b"\r\nHost: name.example:25\r\nHost"),
        HEAD.replace(b"Host", b"Host ", 1),
        HEAD.replace(b"\r\n\r\n", b"\r\nContent-Length: 2\r\n\r\n"),
        HEAD.replace(b"\r\n\r\n", b"\r\nX: " + b"x" * LONGEST_KEPT + b"\r\n\r\n"),
        b"",
    ],
)
def test_what_is_not_one_whole_head_is_read_elsewhere(said: bytes) -> None:
    assert AskedTunnels().read(said) is None


def test_what_is_kept_is_bounded() -> None:
    tunnels = AskedTunnels()
    for number in range(3 * MOST_KEPT):
        assert tunnels.read(HEAD.replace(b"name", b"n%d" % number)) is not None
    assert len(tunnels._read) <= MOST_KEPT
