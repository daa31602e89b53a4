"""A cage's own host name is an address of its own loopback, whether it has a network or none."""

from __future__ import annotations

import subprocess
from typing import Any

import pytest

from pysandbox import Policy, run

pytestmark = pytest.mark.guest

ASK = """
import socket
name = socket.gethostname()
found = {each[4][0] for each in socket.getaddrinfo(name, 80, type=socket.SOCK_STREAM)}
print(socket.gethostbyname(name), found, open("/etc/hosts").read().count(name), socket.gethostbyname("localhost"))
"""
POLICIES: dict[str, dict[str, Any]] = {"no network": {}, "doors": {"hosts": ["a.example"]}}


@pytest.mark.parametrize("said", POLICIES)
def test_it_resolves(said: str) -> None:
    result = run(["/usr/bin/python3", "-I", "-S", "-c", ASK], policy=Policy(**POLICIES[said]))
    assert result.stdout == "127.0.0.1 {'127.0.0.1'} 1 127.0.0.1\n", result.stderr


def test_each_cage_of_a_policy_has_its_own() -> None:
    """Cages that were made ahead have theirs, too."""
    names = {run(["/usr/bin/tail", "-n1", "/etc/hosts"], policy=Policy()).stdout for _ in range(4)}
    assert len(names) == 4 and all(str(each).startswith("127.0.0.1 cage-") for each in names)


KNOWN = """
import socket
try: print(socket.gethostbyname(socket.gethostname()))
except OSError: print("unknown")
"""


@pytest.mark.landlock(6)
def test_in_landlock_mode_it_is_the_host_s_and_as_good_as_there() -> None:
    ask = ["/usr/bin/python3", "-I", "-S", "-c", KNOWN]
    there = subprocess.run(ask, capture_output=True, text=True, check=True).stdout
    here = run(ask, policy=Policy(isolation="landlock", run_as="self"))
    assert here.stdout == there, here.stderr
