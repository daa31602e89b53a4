"""Claim: restrict_network cuts what is connected already, wherever the cage hides the socket, and lets nothing anew.

A server of the host on loopback, in landlock isolation, and in the host's own network for the one place that needs a
unix socket that listens, which landlock isolation has none of; the hiding places are those from which a process could
take its connection back once the cage runs on.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

import pysandbox
from pysandbox import Cage

from .harness import PYTHON, policy

HEAD = """
import os, signal, socket, struct, sys, threading, time
port = int(sys.argv[1])
def dial():
    s = socket.socket(); s.connect(("127.0.0.1", port)); return s
def give(to, what, data=b"x"):
    to.sendmsg([data], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, struct.pack("i", what.fileno()))])
def take(of):
    data, control, *_ = of.recvmsg(100, 100)
    return socket.socket(fileno=struct.unpack("i", control[0][2][:4])[0])
def ready():
    print("ready", flush=True)
    sys.stdin.readline()
def use(s):
    try:
        s.sendall(b"after"); return s.recv(1) == b""
    except OSError:
        return True
"""
TAIL = """
def again():
    try:
        dial(); return None
    except OSError as error:
        return error.errno
print("cut" if dead() else "ALIVE", again(), flush=True)
"""
# Each makes a connection, hides it, says so, and when it may go on tries to use it: dead() tells whether it is cut.
HIDING = {
    "in plain sight": "s = dial(); ready(); dead = lambda: use(s)",
    "in a thread with a table of its own": """
import ctypes
said = threading.Event(); go = threading.Event(); result = []
def run():
    assert ctypes.CDLL(None).unshare(0x400) == 0
    s = dial(); said.set(); go.wait(); result.append(use(s))
t = threading.Thread(target=run); t.start(); said.wait(); ready(); go.set(); t.join()
dead = lambda: result[0]
""",
    "in a grandchild": """
r, w = os.pipe(); back_r, back_w = os.pipe()
s = dial()
if os.fork() == 0:
    if os.fork() == 0:
        os.write(back_w, b"!"); os.read(r, 1); os.write(back_w, b"C" if use(s) else b"A"); os._exit(0)
    os._exit(0)
os.wait(); os.read(back_r, 1); s.close(); ready(); os.write(w, b"!")
dead = lambda: os.read(back_r, 1) == b"C"
""",
    "in a message": """
a, b = socket.socketpair(); s = dial(); give(a, s); s.close(); ready()
def dead():
    b.setblocking(False)
    try: return use(take(b))
    except (OSError, IndexError): return True
""",
    "in a message behind three hundred": """
a, b = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
a.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20); a.setblocking(False)
s = dial()
for _ in range(150): a.send(b"")
for _ in range(150): a.send(b"x")
give(a, s); s.close(); ready()
def dead():
    b.setblocking(False)
    for _ in range(400):
        try: return use(take(b))
        except IndexError: pass
        except OSError: return True
    return True
""",
    "in a message behind an error": """
a, b = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
s = dial(); give(a, s); s.close(); b.send(b"unread"); a.close(); ready()
def dead():
    b.setblocking(False)
    for _ in range(3):
        try: return use(take(b))
        except (OSError, IndexError): pass
    return True
""",
    "in a socket inside a message": """
a, b = socket.socketpair(); c, d = socket.socketpair(); s = dial()
give(c, s); s.close(); give(a, d); d.close(); ready()
def dead():
    b.setblocking(False)
    try:
        inner = take(b); inner.setblocking(False)
        return use(take(inner))
    except (OSError, IndexError): return True
""",
    "in a connection that nobody has accepted": """
path = os.environ.get("TMPDIR", "/tmp") + "/l"
l = socket.socket(socket.AF_UNIX); l.bind(path); l.listen(4)
c = socket.socket(socket.AF_UNIX); c.connect(path); s = dial(); give(c, s); s.close(); ready()
def dead():
    l.setblocking(False)
    try:
        peer = l.accept()[0]; peer.setblocking(False)
        return use(take(peer))
    except (OSError, IndexError): return True
""",
}
LISTENING = "in a connection that nobody has accepted"  # landlock isolation makes no unix socket but pairs
UNDER_WAY = """
s = socket.socket(); s.setblocking(False)
assert s.connect_ex(("127.0.0.1", port)) == 115
ready()
import select
def dead():
    select.select([], [s], [], 20)
    try: s.getpeername()
    except OSError: return True
    return use(s)
"""


@contextmanager
def caged(body: str, port: int, isolation: str = "landlock") -> Iterator[tuple[Cage, pysandbox.Process]]:
    where: dict[str, Any] = {"isolation": "landlock", "seccomp": "default"}  # a thread may unshare its table
    if isolation == "full" or body == HIDING[LISTENING]:
        where = {"egress": "direct", "unsafe_direct": True, "seccomp": "default"}
    rules = policy(**where, allow_ips=[f"127.0.0.1:{port}/tcp"])
    argv = [PYTHON, "-I", "-S", "-c", HEAD + body + TAIL, str(port)]
    with Cage(rules) as cage, cage.spawn(argv, stdin=pysandbox.PIPE, stdout=pysandbox.PIPE) as process:
        assert process.stdout is not None and process.stdin is not None
        assert process.stdout.readline() == b"ready\n"
        yield cage, process


def is_reset(connection: socket.socket) -> bool:
    connection.settimeout(20)
    try:
        return connection.recv(10) == b""  # of one that was killed
    except ConnectionResetError:
        return True


def goes_on(process: pysandbox.Process) -> str:
    stdout, _ = process.communicate(b"\n", timeout=30)
    return stdout.decode().strip()


@pytest.mark.parametrize("place", HIDING)
def test_a_connection_is_cut_wherever_it_is(place: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with caged(HIDING[place], port) as (cage, process):
            connection = server.accept()[0]
            with connection:
                assert cage.context.restrict_network([]) == 1
                assert is_reset(connection)
                assert goes_on(process) == "cut 1"


@pytest.mark.parametrize("place", HIDING)
def test_without_the_restriction_each_of_them_lives(place: str) -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        caged(HIDING[place], server.getsockname()[1]) as (_, process),
        server.accept()[0] as connection,
    ):
        assert process.stdin is not None
        process.stdin.write(b"\n")
        connection.settimeout(20)
        assert connection.recv(10) == b"after"


NOT_DUMPABLE = "import ctypes; ctypes.CDLL(None).prctl(4, 0)\n"  # its descriptors are listed to root alone


@pytest.mark.parametrize("place", HIDING)
def test_nor_does_a_process_keep_one_whose_descriptors_are_not_listed(place: str) -> None:
    """Where it runs in a user namespace of its user's, each number is tried: it lives on, but where something is on its
    way to it, which only its receiver may take."""
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        caged(NOT_DUMPABLE + HIDING[place], server.getsockname()[1], "full") as (cage, process),
        server.accept()[0] as connection,
    ):
        assert cage.context.restrict_network([]) == 1
        assert is_reset(connection)
        may_be_killed = "message" in place or place == LISTENING
        assert goes_on(process) in (("", "cut 1") if may_be_killed else ("cut 1",))


def test_a_process_that_may_not_be_looked_into_is_killed() -> None:
    body = "s = dial(); " + NOT_DUMPABLE + "ready(); dead = lambda: use(s)"
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        caged(body, server.getsockname()[1]) as (cage, process),
        server.accept()[0] as connection,
    ):
        cage.context.restrict_network([])
        assert is_reset(connection)
        assert goes_on(process) in ("", "cut 1")  # root may look


def test_a_connect_that_is_under_way_does_not_arrive_later() -> None:
    """The server's queue is full when it begins, and empty again after the restriction."""
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen(0)
        address = server.getsockname()
        with socket.create_connection(address), caged(UNDER_WAY, address[1]) as (cage, process):
            assert cage.context.restrict_network([]) == 1
            server.accept()[0].close()
            assert goes_on(process) == "cut 1"
            server.settimeout(1.5)  # the kernel's first retry is after one second
            with pytest.raises(TimeoutError):
                server.accept()


def test_a_list_cuts_the_others_only() -> None:
    body = """
s = dial(); t = socket.socket(); t.connect(("127.0.0.1", int(sys.argv[1]) )); ready()
def dead():
    t.sendall(b"still"); return t.recv(5) == b"there"
"""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with caged(body, port) as (cage, process), server.accept()[0], server.accept()[0] as second:
            assert cage.context.restrict_network([f"127.0.0.1:{port}"]) == 0
            second.sendall(b"there")
            assert goes_on(process) == "cut None"


def test_a_restriction_is_never_widened() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with caged(HIDING["in plain sight"], port) as (cage, process), server.accept()[0]:
            cage.context.restrict_network(["192.0.2.1"])
            cage.context.restrict_network([f"127.0.0.1:{port}"])
            assert goes_on(process) == "cut 1"
