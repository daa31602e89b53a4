"""csrc/host/net/netns.c: sockets in a cage's network namespace, made from the host; and what is left when that
fails."""

from __future__ import annotations

import errno
import fcntl
import os
import socket
from collections.abc import Iterator
from ipaddress import IPv4Address

import pytest

from pysandbox.errors import SandboxNetworkError, StartError
from pysandbox.gate.tcp import refused
from pysandbox.launch import netns
from pysandbox.netfilter import netlink
from pysandbox.probe import kernel

from .inject import ERRNO, KILL, answering, under
from .plans import Init, carry_out, opened, plan, refusal

pytestmark = pytest.mark.guest

DOORS = [("udp", netlink.DOORS, netlink.DNS_PORT), ("tcp", netlink.DOORS, netlink.TCP_PORT), ("tcp", netlink.DOORS, 80)]
SO_ORIGINAL_DST = 80


@pytest.fixture
def init() -> Iterator[Init]:
    with opened(plan(loopback=True)) as made:
        yield made


def doors(init: Init, **led: bytes) -> list[socket.socket]:
    return [socket.socket(fileno=fd) for fd in netns.sockets_inside(init.opened.pidfd, DOORS, **led)]


def close(sockets: list[socket.socket]) -> None:
    for each in sockets:
        each.close()


def said_to(init: Init, address: str, port: int, kind: str = "SOCK_STREAM") -> str:
    say = f"lambda s: s.connect(('{address}', {port})) or s.send(b'hello')"
    return init.attempt(f"({say})(socket.socket(type=socket.{kind}))")


def test_they_are_the_host_s_to_close_and_to_keep(init: Init) -> None:
    made = doors(init, routes=netlink.ROUTES)
    try:
        for each, (protocol, address, port) in zip(made, DOORS, strict=True):
            assert each.getsockname() == (address, port)
            assert each.type == {"udp": socket.SOCK_DGRAM, "tcp": socket.SOCK_STREAM}[protocol]
            assert fcntl.fcntl(each, fcntl.F_GETFD) & fcntl.FD_CLOEXEC
            assert not os.get_blocking(each.fileno())
    finally:
        close(made)


def test_they_are_in_the_cage_and_nowhere_else(init: Init) -> None:
    made = doors(init, routes=netlink.ROUTES)
    try:
        assert said_to(init, netlink.DOORS, 80) == "5"
        accepted, _ = made[2].accept()
        accepted.setblocking(True)
        assert accepted.recv(9) == b"hello"
        accepted.close()
        with socket.socket() as host, opened(plan(loopback=True)) as other:
            host.settimeout(0.2)
            host.connect_ex((netlink.DOORS, 80))  # whoever has that address in the host's network, it is not the door
            assert said_to(other, netlink.DOORS, 80) == "ENETUNREACH"
        with pytest.raises(BlockingIOError):
            made[2].accept()
    finally:
        close(made)


def test_without_the_redirect_other_addresses_are_the_cage_s_own_and_empty(init: Init) -> None:
    close(doors(init, routes=netlink.ROUTES))
    assert said_to(init, "192.0.2.1", 80) == "ECONNREFUSED"


HTTPS = netlink.Reached(((bytes((198, 19, 0, 0)), 16),), ((443, 443),))
LISTED = netlink.Reached(((bytes((192, 0, 2, 0)), 24), (bytes((10, 0, 0, 1)), 32)), ())


def test_the_redirect_leads_what_a_policy_lets_to_its_door(init: Init) -> None:
    made = doors(init, routes=netlink.ROUTES, redirect=netlink.redirect(listed=[LISTED]))
    dns, tcp, _ = made
    try:
        for address, port in (("192.0.2.1", 80), ("198.18.1.0", 65535), ("198.19.9.9", 443), ("10.0.0.1", 1)):
            assert said_to(init, address, port) == "5"
            accepted, _ = tcp.accept()
            wanted = accepted.getsockopt(socket.SOL_IP, SO_ORIGINAL_DST, 16)
            assert (socket.inet_ntoa(wanted[4:8]), int.from_bytes(wanted[2:4], "big")) == (address, port)
            accepted.close()
        assert said_to(init, "9.9.9.9", 53, "SOCK_DGRAM") == "5"
        assert dns.recv(9) == b"hello"
        assert said_to(init, "9.9.9.9", 443, "SOCK_DGRAM") == "5"  # QUIC: nobody hears it
        with pytest.raises(BlockingIOError):
            dns.recv(9)
    finally:
        close(made)


def test_every_other_connection_is_refused_and_heard_of(init: Init) -> None:
    """A program that serves the port at every address changes nothing, nor does one that has bound its end."""
    made = doors(init, routes=netlink.ROUTES, redirect=netlink.redirect(names=[HTTPS], listed=[LISTED]))
    (fd,) = netns.sockets_inside(init.opened.pidfd, [("syn", netlink.REFUSER, 0)])
    with socket.socket(fileno=fd) as ear:
        ear.settimeout(60)
        try:
            for address, port in (("8.8.8.8", 65535), ("192.0.1.1", 80), ("198.19.9.9", 80)):
                assert said_to(init, address, port) == "ECONNREFUSED"
                assert refused.meant(ear.recv(200)) == (IPv4Address(address), port)
            everywhere = "(lambda l: socket.create_connection(('8.8.4.4', 8443), 9))(socket.create_server(('', 8443)))"
            bound = "socket.create_connection(('8.8.4.4', 8443), 9, ('127.0.0.1', 0))"
            for each in (everywhere, bound):
                assert init.attempt(each) == "ECONNREFUSED"
                assert refused.meant(ear.recv(200)) == (IPv4Address("8.8.4.4"), 8443)
            assert said_to(init, "198.19.9.9", 443) == "5"
            ear.setblocking(False)
            with pytest.raises(BlockingIOError):
                ear.recv(200)
        finally:
            close(made)


def test_the_cage_s_own_loopback_is_left_alone(init: Init) -> None:
    made = doors(init, routes=netlink.ROUTES, redirect=netlink.REDIRECT)
    try:
        for address in ("127.0.0.1", "127.8.9.10"):
            served = "(lambda l: (socket.create_connection(l.getsockname()), l.accept())[1][1][0])"
            server = f"socket.create_server(('{address}', {netlink.TCP_PORT}))"
            assert init.attempt(f"{served}({server})") == "127.0.0.1"
            assert said_to(init, address, 53) == "ECONNREFUSED"
    finally:
        close(made)


def test_there_is_no_way_for_ipv6(init: Init) -> None:
    close(doors(init, routes=netlink.ROUTES, redirect=netlink.REDIRECT))
    assert init.attempt("socket.socket(socket.AF_INET6).connect(('2001:db8::1', 80))") == "ENETUNREACH"


def test_one_that_is_not_bound_connects_to_what_the_cage_serves(init: Init) -> None:
    command = init.start(
        "/usr/bin/python3", "-I", "-S", "-c",
        "import socket; l = socket.create_server(('127.0.0.1', 8000)); open('/tmp/up', 'w'); l.accept()[0].send(b'hi')",
    )  # fmt: skip
    command.expect("started")
    while not os.path.exists(f"{init.root}/tmp/up"):
        os.sched_yield()
    four, six, udp = _unbound(init)
    try:
        assert (four.family, six.family, udp.type) == (socket.AF_INET, socket.AF_INET6, socket.SOCK_DGRAM)
        four.setblocking(True)
        four.connect(("127.0.0.1", 8000))
        assert four.recv(9) == b"hi"
    finally:
        close([four, six, udp])
    command.expect("exited")


def _unbound(init: Init) -> list[socket.socket]:
    wanted = [("tcp", "0.0.0.0", 0), ("tcp", "::", 0), ("udp", "0.0.0.0", 0)]
    return [socket.socket(fileno=fd) for fd in netns.sockets_inside(init.opened.pidfd, wanted)]


EAR = ("raw", netlink.DOORS, 0)
FLAGS = socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK


def test_an_ear_hears_of_what_is_sent_elsewhere(init: Init) -> None:
    (fd,) = netns.sockets_inside(init.opened.pidfd, [EAR], routes=netlink.ROUTES)
    with socket.socket(fileno=fd) as ear:
        for address in ("127.0.0.1", netlink.DOORS, "203.0.113.9"):
            assert said_to(init, address, 123, "SOCK_DGRAM") == "5"
        ear.settimeout(60)
        heard = ear.recv(99)
        ear.setblocking(False)
        assert (heard[16:20], heard[22:24]) == (bytes((203, 0, 113, 9)), b"\0\x7b")
        with pytest.raises(BlockingIOError):
            ear.recv(99)


@pytest.mark.parametrize(
    ("call", "arguments"), [("socket", {0: socket.AF_INET, 1: socket.SOCK_RAW | FLAGS}), ("setsockopt", {})]
)
def test_an_ear_that_is_refused_is_done_without(init: Init, call: str, arguments: dict[int, int]) -> None:
    wanted = [EAR, *DOORS]
    before = set(os.listdir("/proc/self/fd"))
    refused, *made = under(
        answering(ERRNO | errno.EPERM, call, arguments), lambda: netns.sockets_inside(init.opened.pidfd, wanted, **LED)
    )
    assert refused == -1 and min(made) >= 0
    close([socket.socket(fileno=fd) for fd in made])
    assert set(os.listdir("/proc/self/fd")) <= before


# ---- what fails ------------------------------------------------------------------------------------------------

LED = {"routes": netlink.ROUTES, "redirect": netlink.REDIRECT}
FAILURES = [
    ("clone", {}, "door_enter", None),
    ("setns", {}, "door_enter", None),
    ("socket", {0: socket.AF_NETLINK, 2: 0}, "door_route", "lo"),
    ("sendto", {}, "door_route", "lo"),
    ("recvfrom", {}, "door_route", "lo"),
    ("socket", {0: socket.AF_NETLINK, 2: 12}, "door_redirect", "nf_tables"),
    ("socket", {0: socket.AF_INET, 1: socket.SOCK_STREAM | 0o2004000}, "door_socket", "198.18.0.1:3129/tcp"),
    ("bind", {}, "door_socket", "198.18.0.1:53/udp"),
    ("listen", {}, "door_socket", "198.18.0.1:3129/tcp"),
]


def why_not(init: Init, **led: bytes) -> tuple[str, str, str | None]:
    with pytest.raises(StartError) as caught:
        netns.sockets_inside(init.opened.pidfd, DOORS, **led)
    assert isinstance(caught.value, SandboxNetworkError)
    return refusal(caught.value)


@pytest.mark.parametrize(
    ("call", "arguments", "where", "path"), FAILURES, ids=[f"{row[0]} {row[2]}" for row in FAILURES]
)
def test_a_call_that_fails_says_where_and_leaves_nothing_open(
    init: Init, call: str, arguments: dict[int, int], where: str, path: str | None
) -> None:
    before = set(os.listdir("/proc/self/fd"))
    answer = under(answering(ERRNO | errno.EIO, call, arguments), lambda: why_not(init, **LED))
    assert answer == (where, "EIO", path)
    assert set(os.listdir("/proc/self/fd")) <= before


@pytest.mark.parametrize("call", ["setns", "sendto", "listen"])
def test_one_that_is_killed_half_way_leaves_nothing_open(init: Init, call: str) -> None:
    before = set(os.listdir("/proc/self/fd"))
    assert under(answering(KILL, call, {}), lambda: why_not(init, **LED)) == ("door_enter", "ESRCH", None)
    assert set(os.listdir("/proc/self/fd")) <= before


def test_a_message_that_the_kernel_refuses_is_an_error(init: Init) -> None:
    close(doors(init, **LED))
    assert why_not(init, routes=netlink.ROUTES) == ("door_route", "EEXIST", "lo")
    broken = netlink.REDIRECT.replace(b"dnat", b"none").replace(b"payload", b"nothing")
    assert why_not(init, redirect=broken) == ("door_redirect", "ENOENT", "nf_tables")


def test_an_answer_that_does_not_come_is_an_error(init: Init) -> None:
    silent = answering(ERRNO | errno.EAGAIN, "recvfrom", {})
    assert under(silent, lambda: why_not(init, **LED)) == ("door_route", "EPROTO", "lo")


def test_an_address_that_is_taken_is_named(init: Init) -> None:
    made = doors(init, routes=netlink.ROUTES)
    try:
        assert why_not(init) == ("door_socket", "EADDRINUSE", "198.18.0.1:53/udp")
    finally:
        close(made)


def test_a_cage_that_is_gone_cannot_be_entered() -> None:
    init = carry_out(plan(loopback=True))
    pidfd = os.dup(init.opened.pidfd)
    init.close()
    try:
        with pytest.raises(StartError) as caught:
            netns.sockets_inside(pidfd, DOORS)
        assert refusal(caught.value) == ("door_enter", "ESRCH", None)
    finally:
        os.close(pidfd)


def test_the_probe_tries_the_redirect_and_leaves_nothing() -> None:
    before = set(os.listdir("/proc/self/fd"))
    assert kernel.redirect() == 0
    refused = under(answering(ERRNO | errno.EPROTONOSUPPORT, "socket", {0: socket.AF_NETLINK, 2: 12}), kernel.redirect)
    assert refused == errno.EPROTONOSUPPORT
    assert set(os.listdir("/proc/self/fd")) <= before
