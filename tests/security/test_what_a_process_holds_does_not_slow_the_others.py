"""Claim: how many descriptors and epoll sets a caged process has costs the supervisor no more than looking at some of
them: its connects, behind which those of all other cages wait, take about as long as those of a process with none.
"""

from __future__ import annotations

import socket

from _support.outside import LISTED, outside

from .harness import SLOWNESS, caged, policy, program

ATTACK = """
    import select, socket, time

    def median():
        took = []
        for _ in range(60):
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
                began = time.monotonic()
                s.connect((LISTED, PORT))
                took.append(time.monotonic() - began)
        return sorted(took)[len(took) // 2]

    before = median()
    watched = [os.eventfd(0) for _ in range(60)]
    sets = []
    for _ in range(180):
        sets.append(select.epoll())
        for each in watched:
            sets[-1].register(each)
    say("times", median() / before)
"""
MOST = 40  # it was 200, and is 9 where only some of them are looked at


def slower() -> float:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
        server.bind((LISTED, 0))
        argv = program(ATTACK, LISTED=LISTED, PORT=server.getsockname()[1])
        return float(caged(argv, policy(allow_ips=[LISTED]))["times"].value)


def test_many_epoll_sets_are_not_all_looked_through() -> None:
    assert outside(slower) < MOST * SLOWNESS
