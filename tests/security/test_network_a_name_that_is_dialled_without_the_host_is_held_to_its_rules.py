"""Claim: a connection that the thread of the relay makes, to a name that was judged before, is held to the rules as
they are: it is counted, it is cut when its grant is lost or its cage ends, and none is made afterwards, not by the
reader of the doors either, whatever that says.

A server of the host on loopback, reached by the name that stands for it. That the thread has made a connection, and not
the event loop, is seen by counting what the loop has dialled.
"""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest

from _support.again import EchoService
from pysandbox import PIPE, Cage, Process
from pysandbox.gate import requests
from pysandbox.policy.names import HOST_ALIAS

from .harness import PYTHON, policy

MANY = 50
WAYS = ("address", "socks", "connect")


def hello_for(name: str) -> bytes:
    context, said = ssl.create_default_context(), ssl.MemoryBIO()
    with suppress(ssl.SSLWantReadError):
        context.wrap_bio(ssl.MemoryBIO(), said, server_hostname=name).do_handshake()
    return said.read()


CLIENT = f"""
import os, socket, struct, sys, threading
way, port, name = sys.argv[1], int(sys.argv[2]), {HOST_ALIAS!r}
host = socket.gethostbyname(name)
def open(timeout):
    door = {{"socks": ("198.18.0.1", 1080), "connect": ("198.18.0.1", 3128), "address": (host, port)}}[way]
    s = socket.create_connection(door, timeout=timeout)
    if way == "socks":
        s.sendall(b"\\5\\1\\0"); assert s.recv(2) == b"\\5\\0"
        s.sendall(b"\\5\\1\\0\\3" + bytes([len(name)]) + name.encode() + struct.pack("!H", port))
        assert s.recv(10)[:2] == b"\\5\\0"
    if way == "connect":
        at = f"{{name}}:{{port}}"
        s.sendall(f"CONNECT {{at}} HTTP/1.1\\r\\nHost: {{at}}\\r\\n\\r\\n".encode())
        assert b" 200 " in s.recv(4096)
    return s
def dial(timeout=10, said=b"12345\\n"):
    s = open(timeout); s.sendall(said); return s
def say(word):
    s = dial(); assert s.recv(6) == b"12345\\n", word; return s
for _ in range({MANY}): say("one").close()
kept = say("kept")
HELLO = bytes.fromhex({hello_for("denied.example").hex()!r})
print("ready", flush=True)
def is_cut(s):
    try: s.sendall(b"x\\n"); return s.recv(1) == b""
    except OSError: return True
def is_refused():
    try: return dial(3).recv(1) == b""
    except (OSError, AssertionError): return True
def passes(said):
    try: s = dial(3, said); return said[:5] in s.recv(100)
    except OSError: return False
if sys.stdin.readline() == "attack\\n":
    print(passes(b"GET / HTTP/1.1\\r\\nHost: denied.example\\r\\n\\r\\n"), passes(HELLO), passes(b"HELLO"), flush=True)
    sys.exit()
print("cut" if is_cut(kept) else "ALIVE", all(is_refused() for _ in range(5)), flush=True)
"""


@pytest.fixture
def server() -> Iterator[EchoService]:
    made = EchoService()
    yield made
    made.close()


@pytest.fixture
def dialled(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What the event loop has dialled."""
    made: list[Any] = []

    async def counted(session: Any, target: Any) -> Any:
        made.append(target)
        return await dial(session, target)

    dial = requests.dial
    monkeypatch.setattr(requests, "dial", counted)
    return made


@contextmanager
def connected(server: EchoService, way: str = "address") -> Iterator[tuple[Cage, Process]]:
    """A cage that has made many connections, and has one."""
    rules = policy(egress="proxy-only", allow_host_loopback=True, host_loopback_ports=(server.port,))
    argv = [PYTHON, "-I", "-c", CLIENT, way, str(server.port)]
    with Cage(rules) as cage, cage.spawn(argv, stdin=PIPE, stdout=PIPE, cwd="/tmp") as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        yield cage, process


@pytest.mark.parametrize("way", WAYS)
def test_it_is_made_by_the_relay_and_counted(server: EchoService, dialled: list[Any], way: str) -> None:
    """The control."""
    with connected(server, way) as (_, process):
        assert server.seen == MANY + 1
        assert len(dialled) <= MANY // 2
        assert process.communicate(b"\n", timeout=60)[0] == b"ALIVE False\n"
        assert process.result().network["gatekeeper.tcp_allowed"] >= MANY + 1


@pytest.mark.parametrize("way", WAYS)
def test_it_is_cut_with_its_grant_and_none_is_made_afterwards(
    server: EchoService, dialled: list[Any], way: str
) -> None:
    with connected(server, way) as (cage, process):
        cage.restrict_network(())
        assert server.is_left_alone()
        assert process.communicate(b"\n", timeout=60)[0] == b"cut True\n"
    assert server.seen == MANY + 1


@pytest.mark.parametrize("way", WAYS)
def test_what_is_said_in_it_may_name_no_other_host(server: EchoService, dialled: list[Any], way: str) -> None:
    """HTTP, and a hello of TLS; the control is a word that names nobody."""
    with connected(server, way) as (_, process):
        assert process.communicate(b"attack\n", timeout=60)[0] == b"False False True\n"
        assert {each.target for each in process.result().denials} >= {f"denied.example:{server.port}"}


@pytest.mark.parametrize("way", WAYS)
def test_it_ends_with_its_cage(server: EchoService, dialled: list[Any], way: str) -> None:
    with connected(server, way):
        pass
    assert server.is_left_alone()
