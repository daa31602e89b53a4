"""A program that has called `socket.setdefaulttimeout`, as many do: no socket that Python makes for it blocks, also for
the process that gets it. What others wait in is made otherwise (`pysandbox.descriptors.sockets`). And one whose asyncio
is strict about sockets that may block."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator

import pytest

from _support.cage import PYTHON
from pysandbox import Cage, CageExecutor, Policy, Template, sandboxed
from pysandbox.descriptors.sockets import shared_socket, socket_pair

AT_LEAST = 0.3  # seconds that who waits has to wait: more than the program lets its own sockets


@pytest.fixture(autouse=True)
def impatient() -> Iterator[None]:
    socket.setdefaulttimeout(AT_LEAST / 3)
    yield
    socket.setdefaulttimeout(None)


@sandboxed(Policy(), timeout=60, pool=1)
def slow(number: int) -> int:
    import time

    time.sleep(AT_LEAST)
    return number * number


def test_functions_are_called() -> None:
    try:
        assert list(slow.map([1, 2, 3])) == [1, 4, 9]
    finally:
        slow.close()


@pytest.mark.parametrize("isolate", ["worker", "cage"])
def test_executors_answer(isolate: str) -> None:
    with CageExecutor(Policy(), max_workers=2, isolate=isolate) as executor:  # type: ignore[arg-type]
        assert list(executor.map(slow.__wrapped__, [1, 2, 3])) == [1, 4, 9]


def test_workers_of_a_template_wait_for_their_call() -> None:
    def preload() -> None:
        socket.setdefaulttimeout(AT_LEAST / 3)  # there as well

    with Template(Policy(), preload=preload) as template:
        assert [each.value for each in template.map(slow.__wrapped__, [1, 2, 3])] == [1, 4, 9]


def test_a_cage_with_hosts_has_its_doors() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        reach = f"import socket; socket.create_connection(('host.pysandbox.internal', {port}), 20).sendall(b'x')"
        with Cage(Policy(host_loopback_ports=[port], hosts=["a.test"])) as cage:
            assert cage.run([PYTHON, "-c", reach]).exit_code == 0
            refused = cage.run(["getent", "hosts", "b.test"])
    assert [each.target for each in refused.denials] == ["b.test"]


def test_the_socket_of_somebody_else_blocks_as_before() -> None:
    ours, theirs = socket_pair()
    with ours, theirs:
        assert os.get_blocking(ours.fileno()) and os.get_blocking(theirs.fileno())
        with shared_socket(os.dup(theirs.fileno())):
            assert os.get_blocking(theirs.fileno())
        with socket.socket(fileno=os.dup(theirs.fileno())):
            assert not os.get_blocking(theirs.fileno()), "the control: what Python does by itself"


def test_the_program_s_own_standard_input_blocks_as_before() -> None:
    """As inetd(8) and ssh give it: a socket."""
    started = f"""
import os, socket
socket.setdefaulttimeout({AT_LEAST})
from pysandbox import Cage
process = Cage().spawn(["true"], stdin=0)
print(process.wait(), os.get_blocking(0))
"""
    near, far = socket_pair(socket.SOCK_STREAM)
    with near, far:
        done = subprocess.run([sys.executable, "-c", started], stdin=far, capture_output=True, text=True, timeout=60)
    assert done.stdout.split() == ["0", "True"], done


PUBLISHED = """
import socket
from pysandbox import PIPE, Cage, Policy
echo = (
    "import socket; server = socket.create_server(('127.0.0.1', {port})); print(flush=True); "
    "client = server.accept()[0]; client.send(client.recv(9))"
)
with Cage(Policy(ports=["{port}"])) as cage, cage.spawn(["/usr/bin/python3", "-c", echo], stdout=PIPE) as server:
    server.stdout.readline()
    with socket.create_connection(("127.0.0.1", {port}), 20) as client:
        client.sendall(b"back")
        print(client.recv(9))
"""


@pytest.mark.parametrize("debug", ["", "1"], ids=["usual", "debug"])
def test_ports_are_published_in_asyncio_s_debug_mode(debug: str) -> None:
    """Which refuses a socket whose object does not say that it never blocks."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    done = subprocess.run(
        [sys.executable, "-c", PUBLISHED.format(port=port)], env={**os.environ, "PYTHONASYNCIODEBUG": debug},
        capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert done.stdout == "b'back'\n", done
