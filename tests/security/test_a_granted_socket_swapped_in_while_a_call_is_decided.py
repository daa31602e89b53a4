"""Claim: who swaps a granted socket into a call that was judged for another one gains nothing.

A second of tries each way, and uncaged until one has won: to have it listen, to bind it, to aim it elsewhere, to pass
it on.
"""

from __future__ import annotations

import socket
import subprocess
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from _support.outside import LISTED, OTHER, outside

from .harness import caged, policy, read_report

MOST = {"caged": 1000, "uncaged": 20_000}  # milliseconds
WAYS = ("listen", "bind", "aim", "pass")


def race(binary: str, way: str, where: str) -> dict[str, Any]:
    with ExitStack() as stack:
        udp, other = (stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM)) for _ in range(2))
        udp.bind((LISTED, 0))
        other.bind((OTHER, 0))
        other.setblocking(False)
        full = stack.enter_context(socket.socket())
        full.bind((LISTED, 0))
        full.listen(0)
        stack.enter_context(socket.create_connection(full.getsockname()))
        ports = [str(each.getsockname()[1]) for each in (udp, full, other)]
        argv = [f"{binary}/grantflip", way, LISTED, *ports[:2], OTHER, ports[2], str(MOST[where])]
        if where == "uncaged":
            done = subprocess.run(argv, capture_output=True, text=True, timeout=60)
            report = read_report(done.returncode, done.stdout, done.stderr)
        else:
            report = caged(argv, policy(allow=[binary], allow_ips=[LISTED]))
        try:
            heard = len(other.recv(10))
        except BlockingIOError:
            heard = 0
        return {**report[way].value, "heard": heard, "exit": report.exit_code}


@pytest.mark.parametrize("way", WAYS)
def test_it_is_never_what_it_may_not_be(way: str, attack_bin: Path) -> None:
    said = outside(race, str(attack_bin), way, "caged")
    assert (said["bad"], said["heard"], said["exit"]) == (0, 0, 0)
    assert said["done"] > 0 or way in ("aim", "bind")  # nobody listens there; a name is taken once


@pytest.mark.parametrize("way", WAYS)
def test_uncaged_the_same_program_wins(way: str, attack_bin: Path) -> None:
    said = outside(race, str(attack_bin), way, "uncaged")
    assert said["bad"] > 0
