"""Claim: no listening socket of the host answers a cage: abstract and path unix sockets, TCP and UDP on loopback.

Landlock mode cannot hold a path-based unix socket back: test_landlock_mode_names_its_gaps has it.
"""

from __future__ import annotations

import socket
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from .harness import caged, policy, program, token, uncaged

pytestmark = pytest.mark.guest

ATTACK = """
    import socket
    def connect(family, kind, address, protocol=0):
        with socket.socket(family, kind, protocol) as mine:
            mine.settimeout(10)
            mine.connect(address)
            mine.send(b"hello")

    attempt("abstract stream", connect, socket.AF_UNIX, socket.SOCK_STREAM, "\\0" + NAME)
    attempt("abstract datagram", connect, socket.AF_UNIX, socket.SOCK_DGRAM, "\\0" + NAME + "d")
    attempt("path", connect, socket.AF_UNIX, socket.SOCK_STREAM, PATH)
    attempt("tcp", connect, socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", TCP))
    attempt("tcp by the unspecified address", connect, socket.AF_INET, socket.SOCK_STREAM, ("0.0.0.0", TCP))
    attempt("tcp on v6", connect, socket.AF_INET6, socket.SOCK_STREAM, ("::1", TCP6))
    attempt("tcp on mapped v6", connect, socket.AF_INET6, socket.SOCK_STREAM, ("::ffff:127.0.0.1", TCP))
    attempt("mptcp", connect, socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", TCP), 262)

    def fast_open():
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as mine:
            mine.settimeout(10)
            mine.sendto(b"hello", 0x20000000, ("127.0.0.1", TCP))
    attempt("fast open", fast_open)

    def fast_open_message():
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as mine:
            mine.settimeout(10)
            mine.sendmsg([b"hello"], [], 0x20000000, ("127.0.0.1", TCP))
    attempt("fast open by sendmsg", fast_open_message)
    attempt("udp", connect, socket.AF_INET, socket.SOCK_DGRAM, ("127.0.0.1", UDP))
"""

STREAMS = ("abstract stream", "path", "tcp", "tcp by the unspecified address", "tcp on v6", "tcp on mapped v6", "mptcp",
           "fast open", "fast open by sendmsg")  # fmt: skip


@dataclass(frozen=True, slots=True)
class Listeners:
    """Everything a host may listen on, of this test's own."""

    names: dict[str, object]
    sockets: dict[str, socket.socket]

    def heard(self) -> list[str]:
        """Which of them has a connection or a datagram waiting."""
        found = []
        for name, each in self.sockets.items():
            each.setblocking(False)
            try:
                each.recv(100) if each.type == socket.SOCK_DGRAM else each.accept()[0].close()
                found.append(name)
            except BlockingIOError:
                pass
        return found


@pytest.fixture
def listeners(tmp_path: Path) -> Iterator[Listeners]:
    name, path = token(), tmp_path / "socket"
    wanted: dict[str, tuple[int, int, Any]] = {
        "abstract": (socket.AF_UNIX, socket.SOCK_STREAM, "\0" + name),
        "abstract datagram": (socket.AF_UNIX, socket.SOCK_DGRAM, "\0" + name + "d"),
        "path": (socket.AF_UNIX, socket.SOCK_STREAM, str(path)),
        "tcp": (socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", 0)),
        "tcp6": (socket.AF_INET6, socket.SOCK_STREAM, ("::1", 0)),
        "udp": (socket.AF_INET, socket.SOCK_DGRAM, ("127.0.0.1", 0)),
    }
    with ExitStack() as stack:
        made = {}
        for label, (family, kind, address) in wanted.items():
            made[label] = stack.enter_context(socket.socket(family, kind))
            made[label].bind(address)
            if kind == socket.SOCK_STREAM:
                made[label].listen(64)
        ports = {"TCP": "tcp", "TCP6": "tcp6", "UDP": "udp"}
        numbers = {key: made[label].getsockname()[1] for key, label in ports.items()}
        yield Listeners({"NAME": name, "PATH": str(path), **numbers}, made)


def test_nothing_of_the_host_answers_a_full_cage(listeners: Listeners) -> None:
    report = caged(program(ATTACK, **listeners.names), policy())

    assert listeners.heard() == []
    refused = {
        **dict.fromkeys(STREAMS, "ECONNREFUSED"),  # the cage's own loopback, abstract space and root: nobody is there
        "abstract datagram": "ECONNREFUSED",
        "path": "ENOENT",
        "mptcp": "EPERM",
        "fast open": "EPERM",
        "fast open by sendmsg": "EPERM",
        "udp": (None, "ECONNREFUSED"),  # a datagram into the cage's own loopback
    }
    assert report.differs(refused) == {}


MESSAGES = """
    import os, socket
    os.chdir("/tmp")
    os.symlink(PATH, "link" + NAME)
    ways = {"its path": PATH, "from above": "/.." + PATH, "relative": "../../.." + PATH, "a link": "/tmp/link" + NAME,
            "a magic link": "/proc/self/root" + PATH}
    for name, path in ways.items():
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as mine:
            attempt(name, lambda: mine.sendmsg([b"hello"], [], 0, path) and None)
    os.unlink("link" + NAME)
"""


@pytest.mark.parametrize("scm_rights", ["deny", "allow"])
def test_no_message_is_carried_to_a_name_of_the_host_s(scm_rights: str) -> None:
    """Where descriptors are refused, messages are sent on behalf, by who has another root.

    Control: uncaged they arrive. Each way has to fit in 108 bytes, so that TMPDIR may be too deep."""
    with (
        tempfile.TemporaryDirectory(dir="/tmp") as short,
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as host,
    ):
        path = f"{short}/datagrams"
        host.bind(path)
        host.setblocking(False)
        body = program(MESSAGES, PATH=path, NAME=token())
        control = uncaged(body)
        assert {each.errno for each in control.attempts.values()} == {None}
        assert [host.recv(9) for _ in control.attempts] == [b"hello"] * 5
        attack = caged(body, policy(scm_rights=scm_rights))
        refused = dict.fromkeys(control.attempts, "ENOENT")
        assert attack.differs(refused | {"a magic link": ("ENOENT", "ELOOP")}) == {}
        with pytest.raises(BlockingIOError):
            host.recv(9)


@pytest.mark.landlock(6)
def test_nothing_of_the_host_answers_a_landlocked_process(listeners: Listeners) -> None:
    report = caged(program(ATTACK, **listeners.names), policy("landlock"))

    tcp = ("tcp", "tcp by the unspecified address", "tcp on v6", "tcp on mapped v6")
    filtered = ("abstract stream", "abstract datagram", "path", "mptcp", "fast open", "fast open by sendmsg", "udp")
    assert report.differs({**dict.fromkeys(tcp, "EACCES"), **dict.fromkeys(filtered, "EPERM")}) == {}
    assert listeners.heard() == []


def test_uncaged_every_one_of_them_answers(listeners: Listeners) -> None:
    report = uncaged(program(ATTACK, **listeners.names))

    plain = [name for name in STREAMS if "fast open" not in name and name != "mptcp"]  # these two are host settings
    assert {name: report[name].errno for name in plain} == dict.fromkeys(plain)
    assert set(listeners.heard()) == set(listeners.sockets)
