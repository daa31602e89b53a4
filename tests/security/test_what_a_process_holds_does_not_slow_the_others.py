"""Claim: how many descriptors and epoll sets a caged process has costs the supervisor no more than looking at some of
them: its connects take about as long as those of a process with none. Of one set the kernel tells all that it watches
or nothing: while that is read, nothing but the cage's own calls waits.
"""

from __future__ import annotations

import json
import select
import socket
import time

from _support.outside import LISTED, outside
from pysandbox import PIPE, Cage

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


# A set keeps a file by the number that it was added with, and as long as any other number leads to it.
LARGE = """
    import select, socket, time
    watched = select.epoll()  # the first that is looked at
    files = [os.eventfd(0) for _ in range(700)]
    for number in range(1000, 1500):
        for each in files:
            os.dup2(each, number)
            watched.register(number, 0)
        os.close(number)
    say("ready")
    for _ in range(5):
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as s:
            began = time.monotonic()
            attempt("connect", s.connect, (LISTED, PORT))
            say("connected", time.monotonic() - began)
"""


def waits_and_connects() -> list[list[float]]:
    """How long the host has waited for what it asks of the cage, and how long the cage's connects took meanwhile."""
    with (
        socket.create_server((LISTED, 0), backlog=64) as server,
        Cage(policy(allow_ips=[LISTED], open_files=4096)) as cage,
        cage.spawn(program(LARGE, LISTED=LISTED, PORT=server.getsockname()[1]), stdout=PIPE, text=True) as attack,
    ):
        assert attack.stdout is not None
        json.loads(attack.stdout.readline())
        waited: list[float] = []
        said: list[float] = []
        while len(said) < 5:
            began = time.monotonic()
            _ = cage.denials
            waited.append(time.monotonic() - began)
            if select.select([attack.stdout], [], [], 0.001)[0]:
                tried = json.loads(attack.stdout.readline())
                said += [tried["value"]] if tried["try"] == "connected" else []
    return [waited, said]


def test_whoever_asks_the_cage_does_not_wait_for_a_large_set() -> None:
    """Control: the cage's own connects take long. Evidence: whoever asks meanwhile does not wait for all of that
    time. He waits for some of it where he has no other processor than the one that the kernel writes
    on."""
    waited, connects = outside(waits_and_connects)
    usual = sorted(waited)[len(waited) // 2]
    assert sorted(connects)[2] > 10 * usual, "the set is not large enough to be an attack"
    assert sum(each for each in waited if each > 10 * usual) < sum(connects) * 2 / 3
