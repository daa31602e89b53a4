"""Claim: whoever is slow, silent, half there or merely many at the doors of one cage costs the host a bounded number of
descriptors, delays no other cage, and leaves nothing.
"""

from __future__ import annotations

import json

import pytest

from _support.internet import Internet, places
from _support.internet.host import host_program

from .harness import program
from .network import DOORS

# A host with two cages: one is attacked from inside, and while that goes on the other does its work.
BESIDE = """
import json, os, resource, sys, threading, time
from pysandbox import Cage, Policy, Runtime, DEVNULL, PIPE
from pysandbox.policy.host import HostRule
crowd, work, limit = json.loads(sys.argv[1])
if limit:
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
policy = Policy(egress="proxy-only", hosts=(HostRule(domain="origin.example"),))
runtime = Runtime(warm=0)
fds = lambda: len(os.listdir("/proc/self/fd"))
seconds = lambda: (began := time.monotonic(), two.run(work, stdin=DEVNULL, check=True), time.monotonic() - began)[2]
with Cage(policy, runtime=runtime) as one, Cage(policy, runtime=runtime) as two:
    two.run(work, stdin=DEVNULL, check=True)
    alone, before = min(seconds() for _ in range(5)), fds()
    with one.spawn(crowd, stdin=PIPE, stdout=PIPE) as process:
        held = process.stdout.readline().decode()
        beside, during = sorted(seconds() for _ in range(5))[2], fds()
        process.stdin.close()
        rest = process.stdout.read().decode()
    deadline, looks = time.monotonic() + 10, []
    while (len(looks) < 25 or max(looks[-25:]) > before + 4) and time.monotonic() < deadline:
        time.sleep(0.02)  # some still come out of the backlog, to be thrown out
        looks.append(fds())
    after = max(looks[-25:])
    threads = threading.active_count()
print(json.dumps({"alone": alone, "beside": beside, "before": before, "during": during, "after": after, "held": held,
                  "rest": rest, "threads": threads}), flush=True)
"""
WORK = "assert socks(b'origin.example', ECHO) == direct('origin.example', ECHO) == 'reached'"
HOLD = """
    print(json.dumps(sum(1 for each in map(opened, range(COUNT)) if each)), flush=True)
    sys.stdin.read()
"""
# Each opens one connection and keeps it in this state, in a list; False where the door refused it.
CROWDS = {
    "silent": "at = lambda n: (SOCKS, b'')",
    "half a SOCKS greeting": "at = lambda n: (SOCKS, b'\\5')",
    "half a SOCKS name": "at = lambda n: (SOCKS, b'\\5\\1\\0\\5\\1\\0\\3\\xffabc')",
    "half a head": "at = lambda n: (door('HTTP_PROXY'), b'CONNECT origin.example:443 HTTP/1.1\\r\\nHost: o')",
    "an endless head": "at = lambda n: (door('HTTP_PROXY'), b'GET / HTTP/1.1\\r\\n' + b'x: y\\r\\n' * 5000)",
    "half a ClientHello": "at = lambda n: (('origin.example', 443), b'\\x16\\x03\\x01\\x02\\x00\\x01')",
    "half a question": "at = lambda n: ((RESOLVER, 53), b'\\0')",
    "connected and silent": "at = lambda n: (('origin.example', ECHO), b'')",
}
KEEP = """
    kept = []
    def opened(n):
        address, data = at(n)
        try:
            s = socket.create_connection(address, PATIENCE)
            s.sendall(data)
        except OSError:
            return False
        kept.append(s)
        return True
"""
JUNK = """
    import random
    chance = random.Random(7)
    doors = [SOCKS, door("HTTP_PROXY"), (RESOLVER, 53), ("198.18.99.9", 443), (RESOLVER, 3129)]
    def opened(n):
        try:
            with socket.create_connection(doors[n % len(doors)], PATIENCE) as s:
                s.sendall(chance.randbytes(chance.choice((0, 1, 5, 300))))
                if n % 3:
                    s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        except OSError:
            return False
        return True
"""
MOST = 3200  # descriptors of the host for one cage, whatever happens in it
FEW = 512  # RLIMIT_NOFILE of a program that could not spare what a crowd of MANY would take
MANY = 250  # not more than wait in a backlog
BESIDE_AT_MOST = 6.0  # seconds that another cage's two connections take meanwhile; alone, some milliseconds


def besieged(net: Internet, count: int, *crowd: str, limit: int = 0) -> dict[str, object]:
    """What the host says of itself and of the other cage."""
    names = {"ECHO": places.ECHO, "COUNT": count}
    crowd_argv, work = (program(DOORS.read_text(), *each, **names) for each in ((*crowd, HOLD), (WORK,)))
    programs = json.dumps([crowd_argv, work, limit])
    with host_program(net.space, BESIDE, programs) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line, "the host has ended"
        told: dict[str, object] = json.loads(line)
        return told


def bounded(told: dict[str, object]) -> None:
    before, during, after = (int(str(told[name])) for name in ("before", "during", "after"))
    assert during - before <= MOST, told
    assert after <= before + 4, told
    assert float(str(told["beside"])) < BESIDE_AT_MOST, told


@pytest.mark.slow
@pytest.mark.parametrize("crowd", CROWDS)
def test_whoever_stays_delays_nobody_else(crowd: str, net: Internet) -> None:
    bounded(besieged(net, 1200, CROWDS[crowd], KEEP))


@pytest.mark.slow
def test_the_host_keeps_descriptors_for_itself(net: Internet) -> None:
    """One cage cannot use up what every other cage and the program itself depend on."""
    bounded(besieged(net, MANY, CROWDS["connected and silent"], KEEP, limit=FEW))


@pytest.mark.slow
def test_junk_leaves_nothing(net: Internet) -> None:
    told = besieged(net, 5000, JUNK)

    bounded(told)
    assert int(str(told["held"]).strip()) > 1000  # most of them were let in, to be thrown out
    assert net.arrivals_at(places.DENIED) == []
