"""network.ports: a server in a cage is reached from the host, by its listed ports and no other."""

from __future__ import annotations

import errno
import os
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from subprocess import PIPE

import pytest

from _support.cage import script
from pysandbox import Cage, Policy, Process
from pysandbox.errors import SandboxNetworkError
from pysandbox.gate.gatekeeper import Gatekeeper
from pysandbox.runtime.runtime import Runtime

PATIENCE = 20.0
ECHO = """
import socket, sys, threading
family = socket.AF_INET6 if ":" in sys.argv[1] else socket.AF_INET
listener = socket.create_server((sys.argv[1], 8000), family=family)
report("up")

def serve(one, peer):
    while said := one.recv(65536):
        one.sendall(said + peer[0].encode() if said == b"who" else said)
    one.sendall(b"bye")
    one.close()

while True:
    threading.Thread(target=serve, args=listener.accept()).start()
"""
ECHO_UDP = """
import socket, sys
family = socket.AF_INET6 if ":" in sys.argv[1] else socket.AF_INET
server = socket.socket(family, socket.SOCK_DGRAM)
server.bind((sys.argv[1], 8000))
report("up")
while True:
    said, peer = server.recvfrom(65536)
    server.sendto(said + b" to %d" % peer[1], peer)
"""


def free(kind: socket.SocketKind = socket.SOCK_STREAM) -> int:
    with socket.socket(type=kind) as held:
        held.bind(("127.0.0.1", 0))
        port: int = held.getsockname()[1]
        return port


@contextmanager
def serving(source: str, at: str, *ports: str) -> Iterator[Process]:
    """A cage with a server at `at`, which is up."""
    with Cage(Policy(ports=ports)) as cage, cage.spawn(script(source, at), stdout=PIPE) as server:
        assert server.stdout is not None
        while b"up" not in server.stdout.readline():
            pass
        yield server


def connected(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), timeout=PATIENCE)


@pytest.mark.parametrize("at", ["127.0.0.1", "0.0.0.0", "::1"])
def test_what_the_cage_serves_is_reached(at: str) -> None:
    port = free()
    with serving(ECHO, at, f"{port}:8000"), connected(port) as other:
        other.sendall(b"x" * 300_000)
        other.shutdown(socket.SHUT_WR)
        answer = b""
        while piece := other.recv(65536):
            answer += piece
        assert answer == b"x" * 300_000 + b"bye"  # half-closed by us, heard to its end


def test_the_cage_sees_itself_as_the_caller() -> None:
    port = free()
    with serving(ECHO, "127.0.0.1", f"{port}:8000"), connected(port) as one:
        one.sendall(b"who")
        assert one.recv(99) == b"who127.0.0.1"


def test_only_the_listed_port_is_forwarded() -> None:
    """Neither the port inside under its own number on the host, nor another address of the host."""
    port = free()
    with serving(ECHO, "127.0.0.1", f"{port}:8000"):
        for address in (("127.0.0.1", 8000), ("127.0.0.2", port)):
            with socket.socket() as one:
                assert one.connect_ex(address) == errno.ECONNREFUSED
        with connected(port) as one:
            one.sendall(b"hello")
            assert one.recv(99) == b"hello"


def test_where_nothing_listens_the_caller_is_reset() -> None:
    port = free()
    with Cage(Policy(ports=[f"{port}:8000"])), connected(port) as one, pytest.raises(ConnectionResetError):
        one.recv(1)


def test_a_port_without_a_way_out_opens_none() -> None:
    source = """
import socket
tell = lambda address: attempt(socket.create_connection, address, 2)
report([tell(("198.18.0.1", 1080)), tell(("192.0.2.1", 80)), os.environ.get("HTTP_PROXY")])
"""
    with Cage(Policy(ports=[f"{free()}:8000"])) as cage:
        result = cage.run(script(source))
        assert result.stdout.strip().splitlines()[-1] == '["ENETUNREACH", "ENETUNREACH", null]'


def test_a_port_that_is_taken_refuses_the_cage_and_says_so() -> None:
    port = free()
    with Cage(Policy(ports=[f"{port}:8000"])) as first:
        with (
            pytest.raises(SandboxNetworkError, match=r"network\.ports") as caught,
            Cage(Policy(ports=[f"{port}:8000"])),
        ):
            pass
        assert (caught.value.errno, caught.value.filename) == (errno.EADDRINUSE, f"127.0.0.1:{port}/tcp")
        assert first.run(["/bin/true"]).exit_code == 0
    with Cage(Policy(ports=[f"{port}:8000"])) as later:  # free again
        assert later.run(["/bin/true"]).exit_code == 0


def test_one_port_that_is_taken_leaves_the_others_free() -> None:
    taken, other = free(), free()
    with socket.create_server(("127.0.0.1", taken)):
        with pytest.raises(SandboxNetworkError):
            Cage(Policy(ports=[f"{other}:1", f"{taken}:2"])).run(["/bin/true"])
        socket.create_server(("127.0.0.1", other)).close()


def test_an_address_that_the_host_lacks_is_named() -> None:
    with pytest.raises(SandboxNetworkError, match=r"192\.0\.2\.7:8000/tcp.*does not have") as caught:
        Cage(Policy(ports=["192.0.2.7:8000:8000"])).run(["/bin/true"])
    assert caught.value.errno == errno.EADDRNOTAVAIL


def test_connections_end_with_the_cage() -> None:
    port = free()
    with serving(ECHO, "127.0.0.1", f"{port}:8000"):
        one = connected(port)
        one.sendall(b"hello")
        assert one.recv(99) == b"hello"
    with one, pytest.raises(ConnectionResetError):
        if one.recv(1) == b"":
            raise ConnectionResetError
    assert nobody_answers(port)


def nobody_answers(port: int) -> bool:
    """The listener is on its way out: until it is gone, callers are reset."""
    with socket.socket() as late:
        late.settimeout(PATIENCE)
        try:
            late.connect(("127.0.0.1", port))
            return late.recv(1) == b""
        except (ConnectionRefusedError, ConnectionResetError):
            return True


def test_a_port_is_free_for_the_next_cage_as_soon_as_the_last_one_is_closed() -> None:
    port = free()
    for _ in range(20):
        with serving(ECHO, "127.0.0.1", f"{port}:8000"), connected(port) as one:
            one.sendall(b"hello")
            assert one.recv(99) == b"hello"


def test_many_callers_at_once_are_told_apart() -> None:
    port = free()
    wrong: list[bytes] = []

    def call(number: int) -> None:
        with connected(port) as one:
            said = b"%d" % number * 50
            one.sendall(said)
            heard = b""
            while len(heard) < len(said):
                heard += one.recv(9999)
            if heard != said:
                wrong.append(heard)

    with serving(ECHO, "127.0.0.1", f"{port}:8000"):
        callers = [threading.Thread(target=call, args=(number,)) for number in range(40)]
        for each in callers:
            each.start()
        for each in callers:
            each.join()
    assert not wrong


# ---- UDP --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("at", ["127.0.0.1", "::1"])
def test_each_udp_caller_gets_its_own_answers(at: str) -> None:
    port = free(socket.SOCK_DGRAM)
    with serving(ECHO_UDP, at, f"{port}:8000/udp"):
        callers = [socket.socket(type=socket.SOCK_DGRAM) for _ in range(3)]
        answers = []
        for number, one in enumerate(callers):
            one.settimeout(PATIENCE)
            one.connect(("127.0.0.1", port))
            one.send(b"%d" % number)
        for one in callers:
            answers.append(one.recv(99).split(b" to "))
            one.close()
        assert [said for said, _ in answers] == [b"0", b"1", b"2"]
        assert len({inside for _, inside in answers}) == 3


def test_a_flood_of_udp_callers_costs_a_bounded_number_of_sockets() -> None:
    from pysandbox.gate.published import ports as published

    port = free(socket.SOCK_DGRAM)
    with serving(ECHO_UDP, "127.0.0.1", f"{port}:8000/udp"):
        before = len(os.listdir("/proc/self/fd"))
        for _ in range(published.PEERS + 200):
            with socket.socket(type=socket.SOCK_DGRAM) as one:
                one.settimeout(PATIENCE)
                one.connect(("127.0.0.1", port))
                one.send(b"hello")
                assert one.recv(99).startswith(b"hello")
        assert len(os.listdir("/proc/self/fd")) - before <= published.PEERS + published.AT_ONCE


def test_a_runtime_without_such_a_policy_has_no_gatekeeper() -> None:
    runtime = Runtime()
    Cage(Policy(), runtime=runtime).run(["/bin/true"])
    assert runtime.shared.find(Gatekeeper) is None
    runtime.drain()
