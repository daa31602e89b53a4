"""Claim: a door is of one cage. From outside there is nothing to connect to: not for the host, not for another user,
not for another cage, which has doors of its own and the rules of its own behind them.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from _support.internet import Host, Internet, places
from _support.internet.host import host_program

from .network import REFUSALS, attack, control

# Two cages of one host, each with a name of its own. Runs the given programs, the first in the first cage while both
# are open; the attack in the second knows what the first knows.
TWO = """
import json, sys
from pysandbox import Cage, Policy, Runtime, DEVNULL
from pysandbox.policy.host import HostRule
first, second = json.loads(sys.argv[1])
policy = lambda name: Policy(egress="proxy-only", hosts=(HostRule(domain=name),))
runtime = Runtime(warm=0)
with Cage(policy("origin.example"), runtime=runtime) as one, Cage(policy("www.origin.example"), runtime=runtime) as two:
    own = one.run(first, stdin=DEVNULL).stdout.strip()
    said = two.run([*second, own], stdin=DEVNULL)
    print(json.dumps([own, said.stdout.strip(), said.stderr[-500:]]), flush=True)
"""
RESOLVE = "import socket; print(socket.gethostbyname('origin.example'))"
REACH = """
import socket, sys
said = []
for at in ("origin.example", sys.argv[1], "www.origin.example"):
    try:
        s = socket.create_connection((at, %d), 5)
        s.sendall(b"?")
        said.append("reached" if s.recv(1) else "closed")
    except OSError as error:
        said.append("refused")
print(said)
"""
OPEN = """
import os, sys
from pysandbox import Cage, Policy
from pysandbox.policy.host import HostRule
with Cage(Policy(egress="proxy-only", hosts=(HostRule(domain="origin.example"),))) as cage:
    cage.run(["true"])
    print(os.getpid(), cage.init_pid, flush=True)
    sys.stdin.readline()
"""
# Everything that listens in the network of whoever runs this, as the kernel has it.
LISTENING = """
import json
print(json.dumps([line.split()[1] for kind, state in (("tcp", "0A"), ("tcp6", "0A"), ("udp", "07"), ("udp6", "07"))
                  for line in open(f"/proc/net/{kind}").read().splitlines()[1:] if line.split()[3] == state]))
"""
PYTHON = "/usr/bin/python3"


@contextmanager
def open_cage(net: Internet) -> Iterator[tuple[int, int]]:
    """The pids of a host in the internet with an open cage, and of its init, as this process sees them."""
    with host_program(net.space, OPEN) as process:
        assert process.stdout is not None
        host, init = map(int, process.stdout.readline().split())
        yield host, init


def listening(net: Internet) -> set[str]:
    return set(json.loads(net.space.run([PYTHON, "-c", LISTENING]).stdout))


def test_nothing_listens_outside_the_cage(net: Internet) -> None:
    """CONTROL: the echo servers of the internet are seen this way."""
    before = listening(net)
    with open_cage(net):
        during = listening(net)

    assert any(each.endswith(f":{places.ECHO:04X}") for each in before)
    assert during - before == set()


def test_the_addresses_of_the_doors_lead_nowhere_outside(net_host: Host, net: Internet) -> None:
    ports = (53, 1080, 3128, 3129)
    with open_cage(net):
        said = control(net_host, "PATIENCE = 0.5", f"for port in {ports}: says(str(port), direct, RESOLVER, port)")

    assert said.let_through({*REFUSALS, "silence"}) == {}


def test_another_cage_has_its_own_rules_and_addresses(net: Internet) -> None:
    """The address that one cage was told means nothing, or something else, in the other."""
    programs = json.dumps([[PYTHON, "-c", RESOLVE], [PYTHON, "-c", REACH % places.ECHO]])
    with host_program(net.space, TWO, programs) as process:
        assert process.stdout is not None
        own, said, complaint = json.loads(process.stdout.readline())

    refused_name, _, own_name = eval(said) if said else pytest.fail(complaint)
    assert own.startswith("198.")
    assert (refused_name, own_name) == ("refused", "reached")
    assert {each["to"] for each in net.arrivals_at(places.ORIGIN, places.DENIED)} == {places.ORIGIN}
    assert set(net.questions()) == {"origin.example", "www.origin.example"}


def test_a_cage_cannot_connect_to_the_door_of_another(net_host: Host, net: Internet) -> None:
    """All cages have their doors at one address: what answers there is one's own."""
    with open_cage(net):
        said = attack(net_host, "says('socks', socks, b'origin.example', PORT)",
                      "says('own', socks, b'www.origin.example', PORT)", names={"PORT": places.ECHO},
                      hosts=["www.origin.example"])  # fmt: skip

    assert (said["socks"], said["own"]) == ("SOCKS 2", "reached")


@pytest.mark.root
def test_another_user_reaches_no_door(net: Internet) -> None:
    """Neither the descriptors of the host nor the namespace of the cage are open to somebody else."""
    with open_cage(net) as (host, init):
        attempts = {
            "fds": ["ls", f"/proc/{host}/fd"],
            "namespace": ["nsenter", f"--target={init}", "--net", "true"],
            "user namespace": ["nsenter", f"--target={init}", "--user", "--preserve-credentials", "--net", "true"],
        }
        as_root = {name: subprocess.run(argv, capture_output=True).returncode for name, argv in attempts.items()}
        as_other = {
            name: subprocess.run(["setpriv", "--reuid=65533", "--regid=65533", "--clear-groups", *argv],
                                 capture_output=True).returncode
            for name, argv in attempts.items()
        }  # fmt: skip

    assert as_root == dict.fromkeys(attempts, 0)
    assert 0 not in as_other.values()
    assert os.geteuid() == 0
