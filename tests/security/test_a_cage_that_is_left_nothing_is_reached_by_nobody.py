"""Claim: `restrict_network([])` closes the published ports as well: who is connected is cut, and nobody connects any
more, so nothing that the cage sees later is told to a caller.
"""

from __future__ import annotations

import socket
from contextlib import ExitStack

import pytest

import pysandbox
from pysandbox import Cage

from .harness import PYTHON, policy

SERVER = """
import socket, sys
tcp = socket.create_server(("127.0.0.1", 8000))
udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
udp.bind(("127.0.0.1", 8000))
print("up", flush=True)
if sys.argv[1] == "udp":
    while True:
        said, caller = udp.recvfrom(10)
        udp.sendto(said, caller)
while True:
    connection = tcp.accept()[0]
    while said := connection.recv(10):
        connection.sendall(said)
"""
KINDS = {"tcp": socket.SOCK_STREAM, "udp": socket.SOCK_DGRAM}
WAYS_OUT = [{}, {"hosts": ["a.example"], "egress": "proxy-only"}]


def asks(caller: socket.socket, patience: float = 20) -> bool:
    """Whether the server answers; silence is waited for in vain."""
    caller.settimeout(patience)
    try:
        caller.sendall(b"x")
        return caller.recv(10) == b"x"
    except OSError:
        return False


def answers(kind: str, left: list[str] | None, way_out: dict[str, object]) -> list[bool]:
    """To one who was connected before the restriction, and to one who comes later."""
    with ExitStack() as stack:
        callers = [stack.enter_context(socket.socket(socket.AF_INET, KINDS[kind])) for _ in range(2)]
        with socket.socket(socket.AF_INET, KINDS[kind]) as any_port:
            any_port.bind(("127.0.0.1", 0))
            place = any_port.getsockname()
        cage = stack.enter_context(Cage(policy(ports=[f"{place[1]}:8000/{kind}"], **way_out)))
        server = stack.enter_context(cage.spawn([PYTHON, "-I", "-c", SERVER, kind], stdout=pysandbox.PIPE))
        assert server.stdout is not None and server.stdout.readline() == b"up\n"
        callers[0].connect(place)
        assert asks(callers[0])
        if left is not None:
            cage.restrict_network(left)
        patience = 20 if left is None else 1
        before = asks(callers[0], patience)
        callers[0].close()
        try:
            callers[1].connect(place)
        except ConnectionRefusedError:
            return [before, False]
        return [before, asks(callers[1], patience)]


@pytest.mark.parametrize("way_out", WAYS_OUT, ids=["ports alone", "a way out"])
@pytest.mark.parametrize("kind", KINDS)
def test_nothing_left_is_no_port_left(kind: str, way_out: dict[str, object]) -> None:
    assert answers(kind, None, way_out) == [True, True]
    assert answers(kind, [], way_out) == [False, False]
