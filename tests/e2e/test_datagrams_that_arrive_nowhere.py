"""UDP that no rule lets out arrives nowhere and is written down, with the line that would allow it."""

from __future__ import annotations

import pytest

from _support.cage import cage_script
from pysandbox import Cage, Event, Policy, Runtime

HOSTS = Policy(hosts=("origin.example",))
# That nobody listens comes back as an error of the next call: the datagram has been looked for a place by then.
SEND = """
import socket
for place in sys.argv[1:]:
    host, port = place.rsplit(":", 1)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        s.settimeout(2)
        s.connect((host, int(port)))
        s.send(b"anybody?")
        attempt(s.recv, 99)
"""


def refused(policy: Policy | Cage, *places: str) -> dict[str, tuple[str, str, int]]:
    result = cage_script(policy, SEND, *places)
    assert result.exit_code == 0, result.stderr
    return {each.target: (each.rule, each.fix, each.count) for each in result.denials if each.kind == "udp"}


def test_it_is_told_with_the_line_that_would_allow_it() -> None:
    line = '[[also]]\nnetwork.allow_ips = ["203.0.113.9:123/udp"]'
    assert refused(HOSTS, "203.0.113.9:123") == {"203.0.113.9:123": ("network.allow_ips", line, 1)}


def test_also_in_a_cage_that_is_granted_another_address() -> None:
    told = refused(Policy(allow_ips=("203.0.113.8/udp",)), "203.0.113.9:123", "203.0.113.9:123", "198.18.7.7:443")
    assert {target: count for target, (_, _, count) in told.items()} == {"203.0.113.9:123": 2, "198.18.7.7:443": 1}


def test_it_is_an_event_once_and_counted() -> None:
    events: list[Event] = []
    runtime = Runtime(sink=events.append)
    with Cage(HOSTS, runtime=runtime) as cage:
        assert len(refused(cage, *["203.0.113.9:123"] * 3)) == 1
        assert cage.run(["true"]).network["udp_denied"] == 3
    runtime.drain()
    told = [each.data for each in events if each.data.get("kind") == "udp"]
    assert [each["target"] for each in told] == ["203.0.113.9:123"]


@pytest.mark.parametrize("place", ["127.0.0.1:9", "127.9.9.9:123", "0.0.0.0:9", "198.18.0.1:9"])
def test_what_a_cage_says_to_itself_is_not(place: str) -> None:
    assert refused(HOSTS, place) == {}


def test_a_question_to_a_resolver_is_not() -> None:
    """It is the DNS door's, whoever is asked."""
    assert refused(HOSTS, "198.18.0.1:53") == {}


def test_a_flood_is_bounded() -> None:
    flood = """
import socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for i in range(20000): s.sendto(b"x", (f"203.0.{i >> 8}.{i & 255}", 9))
"""
    with Cage(HOSTS) as cage:
        result = cage_script(cage, flood)
        assert result.exit_code == 0, result.stderr
        assert 0 < len(result.denials) <= 257
        assert cage.run(["true"]).exit_code == 0
