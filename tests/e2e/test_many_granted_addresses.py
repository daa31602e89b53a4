"""However long a list of addresses is: the cage starts, and those that are listed may be asked for names themselves."""

from __future__ import annotations

import pytest

from pysandbox import Policy, run

# An address that is listed is asked itself, so the door is silent; any other one is the door's.
ASK = """
import socket, struct, sys
def asked(address):
    s = socket.socket(type=socket.SOCK_DGRAM); s.settimeout(1)
    s.sendto(struct.pack("!6H", 7, 0x100, 1, 0, 0, 0) + b"\\1x\\7example\\0" + struct.pack("!2H", 1, 1), (address, 53))
    try: return bool(s.recv(512))
    except OSError: return False
print([asked(each) for each in sys.argv[1:]])
"""


def numbered(count: int) -> list[str]:
    """None beside another, so that they are as many ranges."""
    return [f"192.{each >> 7 & 0xFF}.{each & 0x7F}.{(each & 1) * 2 + 1}" for each in range(count)]


@pytest.mark.parametrize("count", [1, 126, 130, 2500, 5000])
def test_the_cage_starts_and_each_address_is_meant_as_such(count: int) -> None:
    listed = numbered(count)
    result = run(["/usr/bin/python3", "-I", "-S", "-c", ASK, "9.9.9.9", listed[-1]], Policy(allow_ips=listed))

    assert result.ok, result.stderr
    assert str(result.stdout).strip() == "[True, False]"


def test_ranges_that_overlap_or_touch_are_no_matter() -> None:
    listed = ["192.0.2.0/24:53", "192.0.2.7", "192.0.3.0/25:53", "0.0.0.0/1:53", "255.255.255.254"]
    result = run(["/usr/bin/python3", "-I", "-S", "-c", ASK, "198.51.100.1", "1.2.3.4"], Policy(allow_ips=listed))
    assert result.ok, result.stderr
    assert str(result.stdout).strip() == "[True, False]"
