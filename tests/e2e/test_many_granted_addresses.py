"""However long a list of addresses is: the cage starts, and a name is asked of the door all the same."""

from __future__ import annotations

import pytest

from pysandbox import Policy, run

ASK = """
import socket, struct
s = socket.socket(type=socket.SOCK_DGRAM); s.settimeout(20)
s.sendto(struct.pack("!6H", 7, 0x100, 1, 0, 0, 0) + b"\\1x\\7example\\0" + struct.pack("!2H", 1, 1), ("198.18.0.1", 53))
print(s.recv(512)[3] & 15)
"""
NXDOMAIN = "3"


def numbered(count: int) -> list[str]:
    """None beside another, so that they are as many ranges."""
    return [f"192.{each >> 7 & 0xFF}.{each & 0x7F}.{(each & 1) * 2 + 1}" for each in range(count)]


@pytest.mark.parametrize("count", [1, 126, 130, 2500, 5000])
def test_the_cage_starts_however_many_are_listed(count: int) -> None:
    started(numbered(count))


def test_ranges_that_overlap_or_touch_are_no_matter() -> None:
    started(["192.0.2.0/24:53", "192.0.2.7", "192.0.3.0/25:53", "0.0.0.0/1:53", "255.255.255.254"])


def started(listed: list[str]) -> None:
    result = run(["/usr/bin/python3", "-I", "-S", "-c", ASK], Policy(allow_ips=listed))
    assert result.ok, result.stderr
    assert str(result.stdout).strip() == NXDOMAIN
