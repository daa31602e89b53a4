"""Claim: what a grant gave is taken away with it: connections through sockets of the host's network, those under way,
and the addresses that names stand for.
"""

from __future__ import annotations

import select
import socket
import threading
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pysandbox
from _support.outside import LISTED, OTHER, outside
from pysandbox import Cage
from pysandbox.policy.endpoint import MAPPED
from pysandbox.policy.host import HostRule
from pysandbox.supervise.supervision import Supervision

from .harness import PYTHON, policy, wait_until

HEAD = """
import os, select, socket, sys, threading
def ready(): print("ready", flush=True); sys.stdin.readline()
def dial(host, port):
    s = socket.socket(); s.settimeout(10); s.connect((host, int(port))); return s
def number(f, *a):
    try: f(*a); return 0
    except OSError as error: return error.errno or "timeout"
def alive(s):
    try:
        s.sendall(b"still"); return s.recv(5) == b"still"
    except OSError: return False
"""
STAYS = """
one, other = sys.argv[1:3], sys.argv[3:5]
s = dial(*one); t = dial(*other); ready(); print(alive(s), alive(t), number(dial, *one), number(dial, *other))
"""
LOOSE = """
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.settimeout(0.5); to = sys.argv[1], int(sys.argv[2])
s.sendto(b"port", to); assert s.recv(5) == b"port"
s.sendto(b"port", to); s.recv(5)
ready(); print(number(s.sendto, b"x", to), number(s.recv, 5))
"""
WAITS = """
s = socket.socket(); print("ready", flush=True)
print(number(s.connect, (sys.argv[1], int(sys.argv[2]))))
"""
ASKS = """
while line := sys.stdin.readline():
    s = socket.socket(); s.settimeout(10)
    before = s.getsockopt(1, 71, 8)  # SO_NETNS_COOKIE
    number(s.connect, (line.split()[0], int(line.split()[1])))
    print("direct" if s.getsockopt(1, 71, 8) != before else "its own", flush=True)
"""


def _echo(server: socket.socket) -> None:
    def serve(connection: socket.socket) -> None:
        with connection:
            while said := connection.recv(100):
                connection.sendall(said)

    while True:
        threading.Thread(target=serve, args=(server.accept()[0],), daemon=True).start()


def _server(stack: ExitStack, host: str) -> int:
    server = stack.enter_context(socket.create_server((host, 0), backlog=64))
    threading.Thread(target=_echo, args=(server,), daemon=True).start()
    return int(server.getsockname()[1])


def _start(cage: Cage, body: str, *arguments: object) -> pysandbox.Process:
    argv = [PYTHON, "-I", "-S", "-c", HEAD + body, *map(str, arguments)]
    return cage.spawn(argv, stdin=pysandbox.PIPE, stdout=pysandbox.PIPE)


def _goes_on(process: pysandbox.Process) -> str:
    return process.communicate(b"\n", timeout=30)[0].decode().strip()


def established(restricted: bool) -> list[Any]:
    with ExitStack() as stack:
        ports = _server(stack, LISTED), _server(stack, OTHER)
        cage = stack.enter_context(Cage(policy(allow_ips=[LISTED, OTHER])))
        process = stack.enter_context(_start(cage, STAYS, LISTED, ports[0], OTHER, ports[1]))
        assert process.stdout is not None and process.stdout.readline() == b"ready\n"
        cut = cage.context.restrict_network([LISTED]) if restricted else 0
        return [cut, _goes_on(process)]


def test_what_is_listed_no_more_is_cut_and_the_rest_stays() -> None:
    assert outside(established, False) == [0, "True True 0 0"]
    assert outside(established, True) == [1, "True False 0 1"]


def unconnected(restricted: bool) -> list[Any]:
    with ExitStack() as stack:
        server = stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
        server.bind((LISTED, 0))
        cage = stack.enter_context(Cage(policy(allow_ips=[LISTED])))
        process = stack.enter_context(_start(cage, LOOSE, *server.getsockname()))
        for _ in range(2):
            said, caller = server.recvfrom(10)
            server.sendto(said, caller)
        assert process.stdout is not None and process.stdout.readline() == b"ready\n"
        cut = cage.context.restrict_network([]) if restricted else 0
        server.sendto(b"late", caller)
        return [cut, _goes_on(process)]


def test_a_socket_that_is_connected_to_nobody_hears_nobody_any_more() -> None:
    assert outside(unconnected, False) == [0, "0 0"]
    assert outside(unconnected, True) == [1, "1 timeout"]


def under_way(restricted: bool) -> list[Any]:
    """A blocking connect waits in the supervisor; its socket is nowhere yet."""
    with ExitStack() as stack:
        full = stack.enter_context(socket.socket())
        full.bind((LISTED, 0))
        full.listen(0)
        stack.enter_context(socket.create_connection(full.getsockname()))
        cage = stack.enter_context(Cage(policy(allow_ips=[LISTED])))
        process = stack.enter_context(_start(cage, WAITS, *full.getsockname()))
        assert process.stdout is not None and process.stdout.readline() == b"ready\n"
        assert wait_until(lambda: " 02 " in Path("/proc/net/tcp").read_text(), 10)  # TCP_SYN_SENT
        if restricted:
            cage.context.restrict_network([])
        full.accept()[0].close()
        number = process.stdout.readline().decode().strip()
        return [number, bool(select.select([full], [], [], 1.5)[0])]


def test_a_connect_that_waits_never_arrives() -> None:
    assert outside(under_way, False) == ["0", True]
    assert outside(under_way, True) == ["103", False]


SYNTHETIC = socket.inet_aton("198.18.1.7")


def named() -> dict[str, Any]:
    said: dict[str, Any] = {}
    rules = policy(egress="proxy-only", hosts=(HostRule(domain="example.com", direct=True),))
    with ExitStack() as stack:
        port = _server(stack, LISTED)
        home = _server(stack, "127.0.0.1")
        cage = stack.enter_context(Cage(rules))
        process = stack.enter_context(_start(cage, ASKS))
        assert process.stdin is not None and process.stdout is not None
        supervision = cage._live.services.find(Supervision)  # type: ignore[union-attr]

        def ask(name: str, to_port: int = port) -> None:
            assert process.stdin is not None and process.stdout is not None
            process.stdin.write(f"198.18.1.7 {to_port}\n".encode())
            process.stdin.flush()
            said[name] = process.stdout.readline().decode().strip()

        def grant(real: str, seconds: float, ports: tuple[int, int] = (1, 65535)) -> None:
            supervision.grant_address(MAPPED + SYNTHETIC, MAPPED + socket.inet_aton(real), *ports, seconds)

        ask("before")
        grant(LISTED, 60, (port + 1, 65535))
        ask("another port")
        grant(LISTED, 0, (port + 1, 65535))
        grant("127.0.0.1", 60)
        ask("the host's loopback", home)
        grant(LISTED, 60)
        ask("granted")
        grant(LISTED, 0)
        ask("expired")
        grant(OTHER, 60)
        grant(LISTED, 60)
        cage.context.restrict_network([LISTED])
        ask("restricted to it")
        cage.context.restrict_network(["192.0.2.1"])
        ask("restricted to another")
    return said


def test_a_name_leads_to_its_address_for_as_long_as_it_was_granted() -> None:
    inside = "its own"  # network, where a door takes it
    assert outside(named) == {
        "before": inside, "granted": "direct", "another port": inside, "the host's loopback": inside, "expired": inside,
        "restricted to it": "direct", "restricted to another": inside,
    }  # fmt: skip
