"""Claim: with egress none a cage has its own loopback and no other way out: no address, route, raw or exotic socket."""

from __future__ import annotations

import pytest

from .harness import caged, policy, program, uncaged

pytestmark = pytest.mark.guest

OUTWARD = """
    import socket
    def connect(family, kind, address):
        with socket.socket(family, kind) as mine:
            mine.settimeout(5)
            mine.connect(address)
            mine.send(b"hello")
    attempt("tcp", connect, socket.AF_INET, socket.SOCK_STREAM, ("198.51.100.1", 80))
    attempt("tcp on v6", connect, socket.AF_INET6, socket.SOCK_STREAM, ("2001:db8::1", 80))
    attempt("udp", connect, socket.AF_INET, socket.SOCK_DGRAM, ("198.51.100.1", 53))
    attempt("multicast", connect, socket.AF_INET, socket.SOCK_DGRAM, ("224.0.0.251", 5353))
    attempt("metadata service", connect, socket.AF_INET, socket.SOCK_STREAM, ("169.254.169.254", 80))
    for name in ("localhost", "example.com"):
        try:
            say(name, bool(socket.getaddrinfo(name, 80)))
        except socket.gaierror as error:  # libc's word, not the kernel's
            say(name, error.errno in (socket.EAI_NONAME, socket.EAI_AGAIN) and "no answer")
"""

SOCKETS = """
    for name, arguments in KINDS.items():
        attempt(name, lambda: os.close(call("socket", *arguments)))
        attempt(name + " with upper bits", lambda: os.close(call("socket", arguments[0] | 1 << 32, *arguments[1:])))
"""

PAIR = """
    import socket
    attempt("a pair", socket.socketpair)
"""

# name: (domain, type, protocol) as the kernel numbers them
KINDS = {
    "raw": (2, 3, 1), "raw v6": (10, 3, 58), "raw close-on-exec": (2, 3 | 0o2000000, 255), "packet": (17, 3, 0x0300),
    "packet datagram": (17, 2, 0x0300), "mptcp": (2, 1, 262), "mptcp v6": (10, 1, 262), "sctp": (2, 1, 132),
    "dccp": (2, 6, 33), "udplite": (2, 2, 136), "vsock": (40, 1, 0), "alg": (38, 5, 0), "bluetooth": (31, 3, 0),
    "xdp": (44, 3, 0), "can": (29, 3, 1), "tipc": (30, 5, 0), "rds": (21, 5, 0), "key": (15, 3, 2), "kcm": (41, 2, 0),
    "netlink generic": (16, 3, 16), "netlink netfilter": (16, 3, 12), "netlink audit": (16, 3, 9),
    "netlink uevent": (16, 3, 15), "netlink diag": (16, 3, 4), "netlink xfrm": (16, 3, 6),
}  # fmt: skip
ICMP = {"icmp datagram": (2, 2, 1), "icmp datagram v6": (10, 2, 58)}
PLAIN = {"tcp": (2, 1, 0), "tcp named": (2, 1, 6), "tcp v6": (10, 1, 0), "netlink route": (16, 3, 0)}
UNIX = {"unix": (1, 1, 0), "unix datagram": (1, 2, 0)}
UDP = {"udp": (2, 2, 0), "udp named": (2, 2, 17), "udp v6": (10, 2, 0)}

LOOPBACK = """
    import socket
    for family, address in ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")):
        with socket.create_server((address, 0), family=family) as server:
            with socket.create_connection(server.getsockname()[:2], timeout=10) as mine:
                theirs = server.accept()[0]
                mine.sendall(b"over loopback")
                say(address, theirs.recv(100).decode())
    say("interfaces", [name for _, name in socket.if_nameindex()])
"""


def both(kinds: dict[str, tuple[int, int, int]], answer: str | None) -> dict[str, str | None]:
    return {name + suffix: answer for name in kinds for suffix in ("", " with upper bits")}


def test_no_address_outside_is_reached(isolation: str) -> None:
    report = caged(program(OUTWARD), policy(isolation, egress="none"))

    stream, datagram = {"full": ("ENETUNREACH", "ENETUNREACH"), "landlock": ("EACCES", "EPERM")}[isolation]
    assert [report[name].errno for name in ("tcp", "tcp on v6", "metadata service")] == [stream] * 3
    assert [report[name].errno for name in ("udp", "multicast")] == [datagram] * 2
    assert (report["localhost"].value, report["example.com"].value) == (True, "no answer")


def test_every_kind_of_socket_that_leads_elsewhere_is_refused(isolation: str) -> None:
    report = caged(program(SOCKETS, KINDS=KINDS), policy(isolation))

    assert report.differs(both(KINDS, "EPERM")) == {}


def test_ping_sockets_are_closed(isolation: str) -> None:
    report = caged(program(SOCKETS, KINDS=ICMP), policy(isolation))

    assert report.differs(both(ICMP, "EPERM")) == {}


def test_ordinary_sockets_are_open(isolation: str) -> None:
    """In landlock isolation the filter alone holds UDP, and unix sockets, which are connected by path and by name."""
    elsewhere = {"full": None, "landlock": "EPERM"}[isolation]

    report = caged(program(SOCKETS, PAIR, KINDS={**PLAIN, **UNIX, **UDP}), policy(isolation))

    assert report.differs({**both(PLAIN, None), **both({**UNIX, **UDP}, elsewhere), "a pair": None}) == {}


def test_uncaged_the_exotic_sockets_exist() -> None:
    """So that EPERM above is the cage's answer, not this kernel's: raw ones need privileges, these do not."""
    free = {name: KINDS[name] for name in ("udplite", "netlink generic", "netlink audit", "netlink uevent")}

    report = uncaged(program(SOCKETS, KINDS=free))

    assert {name: report[name].errno for name in free} == dict.fromkeys(free)


def test_the_cage_has_a_loopback_of_its_own_and_nothing_else() -> None:
    report = caged(program(LOOPBACK), policy())

    assert (report["127.0.0.1"].value, report["::1"].value) == ("over loopback", "over loopback")
    assert report["interfaces"].value == ["lo"]
