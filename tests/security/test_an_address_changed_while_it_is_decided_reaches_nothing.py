"""Claim: whoever changes an address, a message or a descriptor while the call is decided reaches only what is listed.

Two servers of the host, one listed; ten thousand tries each way. Uncaged, the same program reaches both.
"""

from __future__ import annotations

import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from pysandbox import Cage

from .harness import in_cage, policy, read_report

ROUNDS = 10_000
# The filter closes process_vm_writev and Landlock /proc/PID/mem; both are tried all the same.
WAYS = ("thread", "peer", "shared", "writev", "mem", "fd")
TCP_CALLS = ("connect", "bind")
MESSAGES = ("sendto", "sendmsg", "sendmmsg")


class Server:
    """Counts who comes, in `count`; `drain` waits until everybody who has come is counted. TCP and UDP on one port."""

    def __init__(self) -> None:
        self.tcp = socket.create_server(("127.0.0.1", 0), backlog=4096)
        self.port: int = self.tcp.getsockname()[1]
        self.udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.udp.bind(("127.0.0.1", self.port))
        self.count = 0
        self._last: object = None  # the address of a caller who does not count, and comes after the others
        self._counted = threading.Event()
        self._threads = [threading.Thread(target=each) for each in (self._accept, self._receive)]
        for thread in self._threads:
            thread.start()

    def _accept(self) -> None:
        while True:
            try:
                connection, address = self.tcp.accept()
            except OSError:
                return
            connection.close()
            if address == self._last:
                self._counted.set()
            else:
                self.count += 1

    def _receive(self) -> None:
        while data := self.udp.recv(16):
            self.count += data == b"x"

    def drain(self) -> int:
        with socket.socket() as last:
            last.bind(("127.0.0.1", 0))
            self._last = last.getsockname()
            last.connect(("127.0.0.1", self.port))
            assert self._counted.wait(60)
        return self.count

    def close(self) -> None:
        self.tcp.shutdown(socket.SHUT_RDWR)
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as last:
            last.sendto(b"", ("127.0.0.1", self.port))
        for thread in self._threads:
            thread.join()
        self.tcp.close()
        self.udp.close()


@contextmanager
def serving() -> Iterator[Server]:
    server = Server()
    try:
        yield server
    finally:
        server.close()


@pytest.fixture
def listed() -> Iterator[Server]:
    with serving() as server:
        yield server


@pytest.fixture
def forbidden() -> Iterator[Server]:
    with serving() as server:
        yield server


def attack(binary: Path, way: str, call: str, listed: Server, forbidden: Server) -> list[str]:
    return [str(binary / "netflip"), way, call, str(listed.port), str(forbidden.port), str(ROUNDS)]


@pytest.mark.parametrize("way", WAYS)
def test_a_connect_that_changes_never_reaches_the_other_server(
    way: str, attack_bin: Path, listed: Server, forbidden: Server
) -> None:
    rules = policy("landlock", allow=[str(attack_bin), "/proc"], allow_ips=[f"127.0.0.1:{listed.port}/tcp"])

    with Cage(rules) as cage:
        said = in_cage(cage, attack(attack_bin, way, "connect", listed, forbidden))["race"].value
        if way not in ("fd", "writev", "mem"):
            denials = cage.denials
            assert [each.target for each in denials] == [f"127.0.0.1:{forbidden.port}/tcp"]

    assert forbidden.drain() == 0
    assert said["done"] + said["refused"] == ROUNDS
    if way != "fd":
        assert said["done"] > 0 and listed.drain() == said["done"]


@pytest.mark.parametrize("call", MESSAGES)
@pytest.mark.parametrize("way", ["thread", "shared", "fd"])
def test_a_message_that_changes_never_reaches_the_other_server(
    way: str, call: str, attack_bin: Path, listed: Server, forbidden: Server
) -> None:
    """UDP sockets exist where the cage has the host's network."""
    rules = policy(allow=[str(attack_bin)], egress="direct", unsafe_direct=True, allow_ips=[f"127.0.0.1:{listed.port}"])

    with Cage(rules) as cage:
        said = in_cage(cage, attack(attack_bin, way, call, listed, forbidden))["race"].value

    assert said["done"] + said["refused"] == ROUNDS
    assert forbidden.count == 0
    if way != "fd":
        assert said["done"] > 0


def test_a_header_that_changes_never_reaches_the_other_server(
    attack_bin: Path, listed: Server, forbidden: Server
) -> None:
    rules = policy(allow=[str(attack_bin)], egress="direct", unsafe_direct=True, allow_ips=[f"127.0.0.1:{listed.port}"])

    with Cage(rules) as cage:
        said = in_cage(cage, attack(attack_bin, "header", "sendmsg", listed, forbidden))["race"].value

    assert forbidden.count == 0 and said["done"] > 0 and said["refused"] > 0


def test_a_bind_that_changes_takes_only_the_port_that_was_allowed(
    attack_bin: Path, listed: Server, forbidden: Server
) -> None:
    """In the cage's own network both ports are free; a callback allows one."""
    bound = []

    def only_listed(event: object, context: object) -> bool:
        port = getattr(event, "port", 0)
        if getattr(event, "syscall", "") == "bind":
            bound.append(port)
        return bool(port == forbidden.port)

    argv = [*attack(attack_bin, "thread", "bind", listed, forbidden)[:-1], "1000"]
    with Cage(policy(allow=[str(attack_bin)]), policy_fn=only_listed, watch=["network"]) as cage:
        said = in_cage(cage, argv)["race"].value

    assert bound.count(listed.port) == said["done"] > 0
    assert bound.count(forbidden.port) == said["refused"]


@pytest.mark.parametrize("call", ["connect", "sendto"])
def test_uncaged_the_same_program_reaches_both(call: str, attack_bin: Path, listed: Server, forbidden: Server) -> None:
    argv = attack(attack_bin, "thread", call, listed, forbidden)
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60)
    assert read_report(done.returncode, done.stdout, done.stderr)["race"].value["done"] > 0
    assert listed.count > 0 and forbidden.count > 0
