"""Claim: what this host serves at an address of its own, public or not, is reached from a cage where that very address
is listed. No range that it lies in leads there, and no name, whichever of the host's addresses its owner has chosen.
"""

from __future__ import annotations

import errno
import socket
import threading
from contextlib import ExitStack
from ipaddress import IPv6Address
from typing import Any

import pytest
from pysandbox._native import lib

from _support.nameserver import NameServer
from _support.outside import LISTED, OTHER, SIX, outside
from kernel.inject import ERRNO, answering, install
from pysandbox import Cage, Runtime, SandboxCompileError
from pysandbox.gate.dns.message import A

from .harness import in_cage, policy, program, uncaged

ATTACK = """
    import socket

    def dial(address, kind):
        with socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, kind) as s:
            s.settimeout(20 if kind == socket.SOCK_STREAM else 2)
            s.connect((address, PORT))
            s.send(b"x")
            if s.recv(10) != b"reached":
                raise ConnectionResetError

    def loose(address):
        with socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_DGRAM) as s:
            s.settimeout(2)
            s.sendto(b"x", (address, PORT))
            s.recv(10)

    def socks(name):
        with socket.create_connection(("198.18.0.1", 1080)) as s:
            s.sendall(b"\\5\\1\\0")
            s.recv(2)
            s.sendall(b"\\5\\1\\0\\3" + bytes([len(name)]) + name.encode() + PORT.to_bytes(2, "big"))
            if s.recv(10)[1]:
                raise ConnectionRefusedError

    def reaches(action, *arguments):
        try:
            action(*arguments)
        except OSError:
            return False
        return True

    for address in ADDRESSES:
        say("tcp " + address, reaches(dial, address, socket.SOCK_STREAM))
        say("udp " + address, reaches(dial, address, socket.SOCK_DGRAM))
        say("loose " + address, reaches(loose, address))
    for name in NAMES:
        say("socks " + name, reaches(socks, name))
        say("tcp " + name, reaches(dial, name, socket.SOCK_STREAM))
"""
ADDRESSES = (LISTED, OTHER, SIX)  # the second is one more of the first one's network
NO_NETLINK = answering(ERRNO | errno.EMFILE, "socket", {0: socket.AF_NETLINK})
ALL_THREADS = 1  # SECCOMP_FILTER_FLAG_TSYNC
NAMES = {"one.example": LISTED, "two.example": OTHER}


def said(
    allow: list[str], hosts: list[str], cage: bool, left: list[str] | None = None, untold: bool = False
) -> dict[str, Any]:
    """`untold`: once the cage is open, the kernel does not tell its host any more which addresses are the host's."""
    with ExitStack() as stack:
        answers = {(name, A): [address] for name, address in NAMES.items()}
        server = stack.enter_context(NameServer(answers))
        port = _serve(stack)
        argv = program(ATTACK, ADDRESSES=ADDRESSES, NAMES=list(NAMES) if hosts else [], PORT=port)
        if not cage:
            return {name: each.value for name, each in uncaged(argv).attempts.items()}
        runtime = Runtime(nameservers=[server.place])
        rules = policy(egress="proxy-only", allow_ips=allow, hosts=hosts)
        opened = stack.enter_context(Cage(rules, runtime=runtime))
        if left is not None:
            opened.context.restrict_network(left)
        if untold:
            install(NO_NETLINK, ALL_THREADS)
            assert lib.psb_is_own(IPv6Address(SIX).packed) == -errno.EMFILE
        report = in_cage(opened, argv)
        return {name: each.value for name, each in report.attempts.items()}


def _serve(stack: ExitStack) -> int:
    """On every address of the host, by TCP and by UDP."""
    tcp = stack.enter_context(socket.create_server(("::", 0), family=socket.AF_INET6, dualstack_ipv6=True))
    port = int(tcp.getsockname()[1])
    threading.Thread(target=_accept, args=(tcp,), daemon=True).start()
    for address in ADDRESSES:
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        udp = stack.enter_context(socket.socket(family, socket.SOCK_DGRAM))
        udp.bind((address, port))
        threading.Thread(target=_answer, args=(udp,), daemon=True).start()
    return port


def _accept(server: socket.socket) -> None:
    while True:
        with server.accept()[0] as connection:
            connection.sendall(b"reached")


def _answer(server: socket.socket) -> None:
    while True:
        server.sendto(b"reached", server.recvfrom(10)[1])


def test_uncaged_the_host_is_reached() -> None:
    assert set(outside(said, [], [], False).values()) == {True}


def test_an_address_that_is_listed_is_reached() -> None:
    heard = outside(said, [LISTED, OTHER, SIX], list(NAMES), True)
    assert {name for name, reached in heard.items() if not reached} == set()


@pytest.mark.parametrize("allow", [["0.0.0.0/0", "::/0"], ["203.0.113.10/31", "2001:db8::/127", "2001:db8::10/127"]])
def test_no_range_leads_there(allow: list[str]) -> None:
    heard = outside(said, allow, list(NAMES), True)
    assert {name for name, reached in heard.items() if reached} == set()


def test_no_name_leads_there() -> None:
    heard = outside(said, [], list(NAMES), True)
    assert {name for name, reached in heard.items() if reached} == set()


def test_a_range_that_is_cut_down_to_it_does_not_lead_there() -> None:
    heard = outside(said, ["203.0.113.0/24", "2001:db8::/32"], [], True, list(ADDRESSES))
    assert {name for name, reached in heard.items() if reached} == set()


@pytest.mark.parametrize("allow", [["0.0.0.0/0", "::/0"], ["203.0.113.10/31", "2001:db8::10/127"]])
def test_no_range_leads_there_when_the_kernel_does_not_say_whose_it_is(allow: list[str]) -> None:
    heard = outside(said, allow, list(NAMES), True, None, True)
    assert {name for name, reached in heard.items() if reached} == set()


def test_what_is_listed_is_reached_all_the_same() -> None:
    heard = outside(said, [LISTED, OTHER, SIX], [], True, None, True)
    assert {name for name, reached in heard.items() if not reached} == set()


INSIDE = ("127.0.0.1", "0.0.0.0", "::1", "::", "::ffff:127.0.0.1", "::127.0.0.1")
LOOPBACK = """
    for name in INSIDE:
        say(name, reaches(socks if CAGED else dial, *((name,) if CAGED else (name, socket.SOCK_STREAM))))
"""


def at_the_loopback(allow: list[str], cage: bool) -> list[str]:
    with ExitStack() as stack:
        names = {"ADDRESSES": (), "NAMES": (), "INSIDE": INSIDE, "CAGED": cage, "PORT": _serve(stack)}
        argv = program(ATTACK, LOOPBACK, **names)
        report = in_cage(stack.enter_context(Cage(policy(allow_ips=allow))), argv) if cage else uncaged(argv)
        return [name for name, each in report.attempts.items() if each.value]


@pytest.mark.parametrize("allow", [["::/96"], ["::/127"], ["0.0.0.0/8"], ["0.0.0.0/0", "::/0"]])
def test_no_range_leads_to_the_hosts_loopback(allow: list[str]) -> None:
    assert set(outside(at_the_loopback, allow, True)) == set()


def test_uncaged_most_of_these_spellings_do() -> None:
    assert set(outside(at_the_loopback, [], False)) == set(INSIDE[:5])


@pytest.mark.parametrize("any_address", ["0.0.0.0", "::", "[::]:80", "0.0.0.0:80/tcp"])
def test_an_unspecified_address_cannot_be_listed(any_address: str) -> None:
    with pytest.raises(SandboxCompileError, match="loopback"):
        Cage(policy(allow_ips=[any_address])).run(["true"])
