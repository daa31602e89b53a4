"""Claim: when `restrict_network` has returned, nothing that the cage writes reaches an address that was taken away, by
no socket that is open: neither what its queue refers to, nor what is added to a datagram that was begun before.

A cage whose network is taken away before it is shown a secret, and whose peer reads slowly, or late.
"""

from __future__ import annotations

import socket
from contextlib import ExitStack

import pytest

import pysandbox
from _support.outside import LISTED, SIX, outside
from pysandbox import Cage

from .harness import PYTHON, policy

HEAD = """
import mmap, socket, sys
host, port = sys.argv[1], int(sys.argv[2])
def ready():
    print("ready", flush=True)
    sys.stdin.readline()
"""
QUEUED = """
pages = mmap.mmap(-1, 1 << 20)
pages.write(b"a" * len(pages))
s = socket.socket()
s.setsockopt(socket.SOL_SOCKET, 60, 1)  # SO_ZEROCOPY
s.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
s.connect((host, port))
s.setblocking(False)
sent = 0
try:
    while sent < len(pages):
        sent += s.send(memoryview(pages)[sent:], 0x4000000)  # MSG_ZEROCOPY
except BlockingIOError:
    pass
ready()
pages.seek(0)
pages.write(b"s" * len(pages))
print("written", flush=True)
sys.stdin.readline()
"""
BEGUN = """
s = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_DGRAM)
s.sendto(b"hello", (host, port)) if sys.argv[3] == "loose" else s.connect((host, port))
s.setsockopt(17, 1, 1)  # UDP_CORK
s.sendto(b"be", (host, port)) if sys.argv[3] == "loose" else s.send(b"be")
ready()
try:
    s.send(b"gun")
    s.setsockopt(17, 1, 0)
except OSError:
    pass
print("written", flush=True)
sys.stdin.readline()
"""


def goes_on(cage: Cage, restricted: bool, body: str, *arguments: object) -> pysandbox.Process:
    """A program that has gone on behind the restriction, and waits."""
    argv = [PYTHON, "-I", "-S", "-c", HEAD + body, *map(str, arguments)]
    process = cage.spawn(argv, stdin=pysandbox.PIPE, stdout=pysandbox.PIPE)
    assert process.stdin is not None and process.stdout is not None
    assert process.stdout.readline() == b"ready\n"
    if restricted:
        assert cage.context.restrict_network([]) == 1
    process.stdin.write(b"\n")
    process.stdin.flush()
    assert process.stdout.readline() == b"written\n"
    return process


def queued(restricted: bool) -> bool:
    """Whether the peer, whose window was closed, gets what was written later."""
    heard = b""
    with ExitStack() as stack:
        server = stack.enter_context(socket.socket())
        server.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        server.bind((LISTED, 0))
        server.listen()
        cage = stack.enter_context(Cage(policy(allow_ips=[LISTED])))
        stack.enter_context(goes_on(cage, restricted, QUEUED, *server.getsockname()))
        slow = stack.enter_context(server.accept()[0])
        slow.settimeout(20)
        try:
            while b"s" not in heard and (more := slow.recv(65536)):
                heard += more
        except ConnectionResetError:
            pass
    return b"s" in heard


def test_what_waits_in_a_queue_is_dropped() -> None:
    assert outside(queued, False) is True
    assert outside(queued, True) is False


def begun(restricted: bool, host: str, how: str) -> list[str]:
    """What a server of UDP has heard, up to a datagram that is sent to it in the end."""
    with ExitStack() as stack:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        server, other = (stack.enter_context(socket.socket(family, socket.SOCK_DGRAM)) for _ in range(2))
        server.bind((host, 0))
        server.settimeout(20)
        cage = stack.enter_context(Cage(policy(allow_ips=[host])))
        stack.enter_context(goes_on(cage, restricted, BEGUN, host, server.getsockname()[1], how))
        other.sendto(b"end", server.getsockname())
        return list(iter(lambda: server.recv(10).decode(), "end"))


@pytest.mark.parametrize("host", [LISTED, SIX])
def test_a_datagram_that_was_begun_is_dropped(host: str) -> None:
    assert outside(begun, False, host, "connected") == ["begun"]
    assert outside(begun, True, host, "connected") == []
    assert outside(begun, False, host, "loose") == ["hello", "begun"]
    assert outside(begun, True, host, "loose") == ["hello"]
