"""Claim: no spelling of an address, no kind of socket and no other call leads where the list does not.

In landlock isolation by allow_ips; in a full cage by restrict_network, against a server of the cage's own.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from pysandbox import Cage

from .harness import Expected, Report, in_cage, policy, program, uncaged

ATTACK = """
    import socket, struct
    CONNECT, INET, INET6 = NR["connect"], struct.pack("=H", 2), struct.pack("=H", 10)
    HOME = INET + struct.pack("!H", PORT) + bytes([127, 0, 0, 1])
    if OWN:
        server = socket.create_server(("127.0.0.1", PORT))

    def raw(address, size, family=socket.AF_INET, kind=socket.SOCK_STREAM):
        with socket.socket(family, kind) as s:
            padded = address + bytes(256)
            if libc.syscall(CONNECT, s.fileno(), padded, ctypes.c_uint(size & 0xFFFFFFFF)) < 0:
                raise OSError(ctypes.get_errno(), "")

    def dial(family, host):
        with socket.socket(family) as s:
            s.connect((host, PORT))

    for size in (-1, 0, 1, 2, 15, 129):
        attempt(f"length {size}", raw, HOME, size)
    for size in (16, 17, 127, 128):
        attempt(f"length {size}", raw, HOME, size)
    attempt("0.0.0.0", dial, socket.AF_INET, "0.0.0.0")
    attempt("127.0.0.2", dial, socket.AF_INET, "127.0.0.2")
    attempt("::", dial, socket.AF_INET6, "::")
    attempt("mapped", dial, socket.AF_INET6, "::ffff:127.0.0.1")
    attempt("mapped any", dial, socket.AF_INET6, "::ffff:0.0.0.0")

    MAPPED_ANY = INET6 + struct.pack("!HI", PORT, 0) + bytes(10) + bytes([255, 255, 0, 0, 0, 0])
    for size in (24, 27):  # without a scope (SIN6_LEN_RFC2133)
        attempt(f"mapped any of {size}", raw, MAPPED_ANY, size, socket.AF_INET6)

    def again():
        with socket.socket() as s:
            raw_unspec = bytes(16)
            libc.syscall(CONNECT, s.fileno(), raw_unspec, 16)
            s.connect(("127.0.0.1", PORT))
    attempt("after AF_UNSPEC", again)

    def fast(option):
        with socket.socket() as s:
            if option:
                s.setsockopt(socket.IPPROTO_TCP, 30, 1)
                s.connect(("127.0.0.1", PORT)); s.send(b"x")
            else:
                s.sendto(b"x", 0x20000000, ("127.0.0.1", PORT))
    attempt("TCP_FASTOPEN_CONNECT", fast, True)
    attempt("MSG_FASTOPEN", fast, False)

    def route(level, name):
        with socket.socket(socket.AF_INET6 if level == 41 else socket.AF_INET) as s:
            s.setsockopt(level, name, bytes([131, 7, 4, 127, 0, 0, 1, 0]) if level == 0 else b"")
    attempt("source route", route, 0, 4)
    attempt("routing header", route, 41, 57)
    attempt("mptcp", socket.socket, socket.AF_INET, socket.SOCK_STREAM, 262)
    attempt("sctp", socket.socket, socket.AF_INET, socket.SOCK_STREAM, 132)
    attempt("raw", socket.socket, socket.AF_INET, socket.SOCK_RAW, 1)
    attempt("packet", socket.socket, 17, socket.SOCK_DGRAM)
    attempt("vsock", socket.socket, 40, socket.SOCK_STREAM)
    attempt("netlink", socket.socket, 16, socket.SOCK_RAW, 4)
    attempt("io_uring", call, "io_uring_setup", 8, bytes(120))
"""
KINDS = dict.fromkeys(
    (
        "source route",
        "routing header",
        "mptcp",
        "sctp",
        "raw",
        "packet",
        "vsock",
        "netlink",
        "io_uring",
        "MSG_FASTOPEN",
    ),
    "EPERM",
)
LENGTHS = {
    "length -1": "EINVAL",
    "length 129": "EINVAL",
    **dict.fromkeys((f"length {size}" for size in (0, 1, 2, 15)), ("EPERM", "EINVAL")),
}
DIALS = (
    "length 16", "length 17", "length 127", "length 128", "0.0.0.0", "127.0.0.2", "::", "mapped", "mapped any",
    "mapped any of 24", "mapped any of 27", "after AF_UNSPEC", "TCP_FASTOPEN_CONNECT",
)  # fmt: skip
CLOSED: Expected = {**LENGTHS, **KINDS, **dict.fromkeys(DIALS, "EPERM")}


@pytest.fixture
def server() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0), backlog=64) as listener:
        listener.setblocking(False)
        yield listener


def reached(server: socket.socket) -> bool:
    try:
        server.accept()[0].close()
    except BlockingIOError:
        return False
    return True


def test_a_list_in_landlock_isolation(server: socket.socket) -> None:
    rules = policy("landlock", allow_ips=["192.0.2.1"])
    with Cage(rules) as cage:
        report = in_cage(cage, program(ATTACK, PORT=server.getsockname()[1], OWN=False))
        assert {each.rule for each in cage.denials} == {"network.allow_ips"}
    assert report.differs(CLOSED) == {}
    assert not reached(server)


def test_monitor_opens_no_network(server: socket.socket) -> None:
    rules = policy("landlock", allow_ips=["192.0.2.1"], monitor=True)
    report = in_cage(Cage(rules), program(ATTACK, PORT=server.getsockname()[1], OWN=False))
    assert {name: report[name].errno for name in DIALS} == dict.fromkeys(DIALS, "EPERM")
    assert not reached(server)


def test_a_restriction_in_a_full_cage() -> None:
    with Cage(policy(), watch=["network"]) as cage:
        cage.context.restrict_network([])
        report = in_cage(cage, program(ATTACK, PORT=2000, OWN=True))
    assert report.differs(CLOSED) == {}


def test_a_range_of_unspecified_addresses_does_not_list_loopback(server: socket.socket) -> None:
    """An unspecified destination is loopback, which the range does not hold, however long the address is."""
    rules = policy("landlock", allow_ips=["0.0.0.0/2"])
    report = in_cage(Cage(rules), program(ATTACK, PORT=server.getsockname()[1], OWN=False))
    assert {name: report[name].errno for name in DIALS} == dict.fromkeys(DIALS, "EPERM")
    assert not reached(server)


def test_what_is_listed_is_reached_by_every_spelling_of_it(server: socket.socket) -> None:
    port = server.getsockname()[1]
    rules = policy("landlock", allow_ips=[f"127.0.0.1:{port}", "[::1]"])
    report = in_cage(Cage(rules), program(ATTACK, PORT=port, OWN=False))
    open_ones = [name for name in DIALS if name not in ("127.0.0.2", "::", "TCP_FASTOPEN_CONNECT")]
    assert {name: report[name].errno for name in open_ones} == dict.fromkeys(open_ones)
    assert report["127.0.0.2"].errno == "EPERM"
    assert reached(server)


def test_uncaged_they_work(server: socket.socket) -> None:
    report: Report = uncaged(program(ATTACK, PORT=server.getsockname()[1], OWN=False))
    plain = [name for name in DIALS if name not in ("127.0.0.2", "::", "TCP_FASTOPEN_CONNECT")]
    assert {name: report[name].errno for name in plain} == dict.fromkeys(plain)
    assert reached(server)
