"""Claim: a granted socket never has a port that a program of the host has, so nothing that was sent to that one comes
to the cage.

The program of the host lets others have its port (SO_REUSEADDR, which over UDP means at the same time). The kernel
chooses the ports of the cage's sockets, so the cage makes many, and asks the server which one it got.
"""

from __future__ import annotations

import socket
import threading
from contextlib import ExitStack
from typing import Any

from _support.outside import LISTED, outside

from .harness import caged, policy, program, uncaged

ATTACK = """
    import socket, time

    def tries():
        patience = time.monotonic() + 40
        for _ in range(MOST):
            if time.monotonic() > patience:
                break
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
                s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                s.connect((LISTED, SERVER))
                if s.getsockname()[1] == WANTED:
                    s.settimeout(5)
                    s.send(b"now")
                    return s.recv(100).decode()
        return ""

    say("heard", tries())
"""
MOST = {True: 60_000, False: 1_000_000}  # some times as many as there are ports; who has won stops


def heard(cage: bool) -> list[Any]:
    """What was heard in the cage, and by the program of the host; the server answers to the latter's port."""
    with ExitStack() as stack:
        made = (socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(2))
        server, program_of_host = map(stack.enter_context, made)
        server.bind((LISTED, 0))
        program_of_host.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        program_of_host.bind(("0.0.0.0", 0))
        place = LISTED, program_of_host.getsockname()[1]

        def answer() -> None:
            server.recv(10)
            server.sendto(b"for the host", place)

        threading.Thread(target=answer, daemon=True).start()
        argv = program(ATTACK, LISTED=LISTED, SERVER=server.getsockname()[1], WANTED=place[1], MOST=MOST[cage])
        report = caged(argv, policy(allow_ips=[LISTED])) if cage else uncaged(argv)
        server.sendto(b"for the host", place)
        program_of_host.settimeout(10)
        return [report["heard"].value, program_of_host.recv(100).decode()]


def test_the_host_hears_what_was_sent_to_it() -> None:
    assert outside(heard, True) == ["", "for the host"]


def test_uncaged_a_port_is_taken_over() -> None:
    assert outside(heard, False)[0] == "for the host"
