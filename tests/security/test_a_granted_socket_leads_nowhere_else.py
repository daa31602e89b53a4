"""Claim: a socket of the host's network that a grant puts into a cage reaches what is listed, and no more.

Two servers of the host, one listed; the cage has a network of its own. Uncaged the same program reaches both, and does
with its socket what it likes.
"""

from __future__ import annotations

import select
import socket
import struct
import threading
from contextlib import ExitStack
from typing import Any

import pytest

from _support.outside import LISTED, OTHER, SIX, outside

from .harness import Report, caged, policy, program, uncaged

pytestmark = pytest.mark.guest

ATTACK = """
    import array, fcntl, socket, struct, threading, time
    INET, DGRAM = socket.AF_INET, socket.SOCK_DGRAM
    UNSPEC = bytes(16)

    def raw(name, s, address):
        if libc.syscall(NR[name], s.fileno(), address, len(address)) < 0:
            raise OSError(ctypes.get_errno(), "")

    def tcp(address=LISTED, port=None):
        s = socket.socket()
        s.settimeout(5)
        s.connect((address, port or TCP))
        return s

    def udp(address=LISTED, port=None):
        s = socket.socket(INET, DGRAM)
        s.settimeout(5)
        s.connect((address, port or UDP))
        return s

    def loose():
        s = socket.socket(INET, DGRAM)
        s.settimeout(5)
        s.sendto(b"ping", (LISTED, UDP))
        assert s.recv(10) == b"ping"
        return s

    def reset():
        # what the server answers "reset" with leaves a socket that is closed, and has no port
        s = tcp()
        s.sendall(b"reset")
        try:
            s.recv(1)
        except ConnectionResetError:
            pass
        return s

    def refused_later():
        s = socket.socket()
        s.setblocking(False)
        assert s.connect_ex((LISTED, FULL)) == 115
        s.shutdown(2)
        return s

    attempt("tcp", tcp)
    attempt("udp", udp)
    attempt("loose udp", loose)
    attempt("other tcp", tcp, OTHER, OTHER_TCP)
    attempt("other udp", lambda: loose().sendto(b"x", (OTHER, OTHER_UDP)))
    attempt("udp again", lambda: udp().connect((OTHER, OTHER_UDP)))
    attempt("udp past its peer", lambda: udp().sendto(b"x", (OTHER, OTHER_UDP)))
    attempt("sendmsg past its peer", lambda: udp().sendmsg([b"x"], [], 0, (OTHER, OTHER_UDP)))
    def again(*address):
        s = tcp()
        try:
            raw("connect", s, UNSPEC)
        except OSError:
            pass
        s.connect(address)
    attempt("tcp again", again, OTHER, OTHER_TCP)
    attempt("host loopback udp", lambda: loose().sendto(b"x", ("127.0.0.1", OTHER_UDP)))
    attempt("host loopback tcp", again, "127.0.0.1", HOME)
    attempt("host any tcp", again, "0.0.0.0", HOME)
    for name, make in {"tcp": tcp, "udp": udp, "loose": loose, "reset": reset}.items():
        attempt(name + " AF_UNSPEC", lambda: raw("connect", make(), UNSPEC))
    for name, make in {"reset": reset, "under way": refused_later}.items():
        attempt(name + " bind", lambda: make().bind(("0.0.0.0", 0)))
        attempt(name + " listen", lambda: make().listen())
    def undone():
        s = tcp()
        raw("connect", s, UNSPEC)
        s.bind((LISTED, 0))
        s.listen()
    attempt("undone, bound, listening", undone)
    attempt("fast open", lambda: reset().sendto(b"x", 0x20000000, (OTHER, OTHER_TCP)))
    def deferred():
        s = socket.socket()
        s.setsockopt(socket.IPPROTO_TCP, 30, 1)
        s.connect((OTHER, OTHER_TCP))
        s.send(b"x")
    attempt("deferred", deferred)
    attempt("mptcp", socket.socket, INET, socket.SOCK_STREAM, 262)
    attempt("interfaces", lambda: fcntl.ioctl(tcp(), 0x8912, struct.pack("iP", 0, 0)))
    attempt("an interface", lambda: fcntl.ioctl(udp(), 0x8933, b"lo" + bytes(38)))
    attempt("wireless", lambda: fcntl.ioctl(udp(), 0x8B01, bytes(40)))
    attempt("device", lambda: tcp().setsockopt(socket.SOL_SOCKET, 25, b"lo"))
    attempt("multicast", lambda: loose().setsockopt(0, 35, socket.inet_aton("224.0.0.251") + socket.inet_aton(LISTED)))
    attempt("multicast source", lambda: loose().setsockopt(0, 42, bytes(136)))
    attempt("encapsulation", lambda: loose().setsockopt(17, 100, 2))
    def label():
        with socket.socket(socket.AF_INET6, DGRAM) as s:  # the label may carry a routing header
            s.setsockopt(41, 32, bytes(15) + b"\1" + struct.pack("=IBBHHHI", 0, 0, 255, 1, 0, 0, 0))
    attempt("flow label", label)
    attempt("upper layer", lambda: tcp().setsockopt(6, 31, b"tls"))
    attempt("unlock", lambda: loose().setsockopt(socket.SOL_SOCKET, 27, 0))
    attempt("ring", call, "io_uring_setup", 8, bytes(120))

    def passed(make):
        a, b = socket.socketpair()
        s = make()
        socket.send_fds(a, [b"x"], [s.fileno()])
    attempt("pass tcp", passed, tcp)
    attempt("pass udp", passed, loose)
    def passed_by_file():
        a, b = socket.socketpair()
        with open("/dev/null") as file:
            socket.send_fds(a, [b"x"], [file.fileno()])
            return os.fstat(socket.recv_fds(b, 1, 1)[1][0]).st_rdev == os.stat("/dev/null").st_rdev
    attempt("pass a file", passed_by_file)

    def heard():
        # a stranger of the host sends to the port of a socket that is connected to nobody
        s = loose()
        s.sendto(b"told " + str(s.getsockname()[1]).encode(), (LISTED, UDP))
        said = s.recv(10)  # the stranger's comes first, where it comes
        return (said + s.recv(10) if said == b"stranger" else said).decode()
    attempt("heard", heard)
"""
REACHED = ("tcp", "udp", "loose udp", "pass a file", "heard")
AT_A_DOOR = ("other tcp", "deferred")  # which takes the connection, and resets it
REFUSED = (
    "other udp", "udp again", "udp past its peer", "sendmsg past its peer", "tcp again", "host loopback udp",
    "host loopback tcp", "host any tcp", "tcp AF_UNSPEC", "udp AF_UNSPEC", "loose AF_UNSPEC", "reset AF_UNSPEC",
    "reset bind", "reset listen", "under way bind", "under way listen", "undone, bound, listening", "fast open",
    "mptcp",
    "interfaces", "an interface", "wireless", "device", "multicast", "multicast source", "encapsulation", "flow label",
    "upper layer", "unlock", "ring", "pass tcp", "pass udp",
)  # fmt: skip


class Host:
    """The servers. `reached` says what the forbidden ones heard."""

    def __init__(self, stack: ExitStack) -> None:
        self.tcp = stack.enter_context(socket.create_server((LISTED, 0), backlog=64))
        self.other_tcp = stack.enter_context(socket.create_server((OTHER, 0), backlog=64))
        self.home = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=64))
        self.udp = stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
        self.other_udp = stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
        self.udp.bind((LISTED, 0))
        self.other_udp.bind(("0.0.0.0", 0))
        self.full = stack.enter_context(socket.socket())
        self.full.bind((LISTED, 0))
        self.full.listen(0)
        self.held = stack.enter_context(socket.create_connection(self.full.getsockname()))
        for each in (self._accept, self._answer):
            threading.Thread(target=each, daemon=True).start()

    def _accept(self) -> None:
        while True:
            connection = self.tcp.accept()[0]
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with connection:
            while said := connection.recv(100):
                if said == b"reset":
                    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                    return
                connection.sendall(said)

    def _answer(self) -> None:
        while True:
            said, caller = self.udp.recvfrom(100)
            if said.startswith(b"told "):
                with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as stranger:
                    stranger.bind((OTHER, 0))
                    stranger.sendto(b"stranger", (LISTED, int(said.split()[1])))
                said = b"sent"
            self.udp.sendto(said, caller)

    def names(self) -> dict[str, object]:
        ports = {
            "TCP": self.tcp, "UDP": self.udp, "OTHER_TCP": self.other_tcp, "OTHER_UDP": self.other_udp,
            "HOME": self.home, "FULL": self.full,
        }  # fmt: skip
        return {"LISTED": LISTED, "OTHER": OTHER, **{name: each.getsockname()[1] for name, each in ports.items()}}

    def reached(self) -> int:
        return len(select.select([self.other_tcp, self.other_udp, self.home], [], [], 0.2)[0])


def _said(report: Report, host: Host) -> dict[str, Any]:
    denials = report.result.denials if report.result else ()
    return {
        "heard": report["heard"].value if "heard" in report.attempts else "",
        "errnos": {name: each.errno for name, each in report.attempts.items()}, "stderr": report.stderr,
        "reached": host.reached(), "denied": sorted({each.target.rpartition(":")[0] for each in denials}),
        "fixes": sorted({each.fix.splitlines()[1].split("=")[0].strip() for each in denials if each.fix}),
    }  # fmt: skip


def attack(where: str) -> dict[str, Any]:
    with ExitStack() as stack:
        host = Host(stack)
        argv = program(ATTACK, **host.names())
        if where == "uncaged":
            return _said(uncaged(argv), host)
        return _said(caged(argv, policy(allow_ips=[LISTED], monitor=where == "monitored")), host)


def of(errnos: dict[str, str | None]) -> dict[str, str | None]:
    return {name: each for name, each in errnos.items() if name not in AT_A_DOOR}


def test_only_what_is_listed_is_reached() -> None:
    said = outside(attack, "caged")
    assert said["stderr"] == "" and said["heard"] == "sent"
    assert of(said["errnos"]) == {**dict.fromkeys(REACHED), **dict.fromkeys(REFUSED, "EPERM")}
    assert said["reached"] == 0
    assert {OTHER, "127.0.0.1"} <= {*said["denied"]}


def test_monitor_opens_nothing() -> None:
    said = outside(attack, "monitored")
    assert of(said["errnos"]) == {**dict.fromkeys(REACHED), **dict.fromkeys(REFUSED, "EPERM")}
    assert said["reached"] == 0


def test_uncaged_the_same_program_goes_everywhere() -> None:
    said = outside(attack, "uncaged")
    assert said["heard"] == "strangersent"
    works = {name for name, number in said["errnos"].items() if number is None}
    assert works >= {
        *REACHED, "other tcp", "other udp", "udp again", "udp past its peer", "tcp again", "host loopback tcp",
        "host loopback udp", "reset bind",
        "under way bind", "under way listen", "undone, bound, listening", "tcp AF_UNSPEC", "interfaces", "an interface",
        "multicast", "encapsulation", "flow label", "pass tcp", "pass udp",
    }  # fmt: skip
    assert said["reached"] == 3


LOOSE = """
    import socket
    def heard(family, host, port):
        s = socket.socket(family, socket.SOCK_DGRAM)
        s.settimeout(1)
        s.sendto(b"who", (host, port))
        return [s.recv(10).decode()]
    attempt("four", heard, socket.AF_INET, FOUR, PORT)
    attempt("mapped", heard, socket.AF_INET6, "::ffff:" + FOUR, PORT)
    attempt("six", heard, socket.AF_INET6, SIX, PORT)
    attempt("another port", heard, socket.AF_INET, FOUR, PORT - 1)
"""


def answers(allow: list[str], cage: bool) -> dict[str, Any]:
    """Each datagram is answered twice: first from another port of the same address, then from where it went."""
    port = 6001
    with ExitStack() as stack:
        places = [(socket.AF_INET, LISTED), (socket.AF_INET6, SIX)]
        for family, host in places:
            pair = [stack.enter_context(socket.socket(family, socket.SOCK_DGRAM)) for _ in range(2)]
            for each, number in zip(pair, (port - 1, port), strict=True):
                each.bind((host, number))
            threading.Thread(target=_twice, args=pair, daemon=True).start()
        argv = program(LOOSE, FOUR=LISTED, SIX=SIX, PORT=port)
        report = caged(argv, policy(allow_ips=allow)) if cage else uncaged(argv)
        return {name: each.value and each.value[0] for name, each in report.attempts.items()}


def _twice(other: socket.socket, asked: socket.socket) -> None:
    while True:
        caller = asked.recvfrom(10)[1]
        other.sendto(b"other", caller)
        asked.sendto(b"asked", caller)


def test_a_socket_that_is_connected_to_nobody_hears_the_listed_ports_only() -> None:
    lists = [f"{LISTED}:6001/udp", f"[{SIX}]:6001/udp"]
    both = [*lists, "192.0.2.0/24:1-100", f"{LISTED}/31:6000-6001/udp", "2001:db8::/32:6000-6001"]
    assert outside(answers, lists, False)["six"] == "other"
    assert outside(answers, lists, True) == {"four": "asked", "mapped": "asked", "six": "asked", "another port": None}
    assert outside(answers, both, True) == {"four": "other", "mapped": "other", "six": "other", "another port": None}
