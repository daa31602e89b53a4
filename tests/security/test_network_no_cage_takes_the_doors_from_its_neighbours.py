"""Claim: whatever a cage holds that the kernel counts for its user, and however it forks, other cages keep their doors:
the one process that reads at all of them, and the one loop that records what was refused, go on.
"""

from __future__ import annotations

import errno
import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from pysandbox.gate import askers, reader
from pysandbox.gate.askers import Askers, DoorClient, served
from pysandbox.gate.reader import DoorReader
from pysandbox.live import askers as live_askers

from .harness import FLIGHT, first_line, host_script, program

# ---- descriptors on their way ---------------------------------------------------------------------------------------

ASKS = """
    def through(ask):
        with socket.create_connection(("198.18.0.1", 3128), 20) as s:
            s.sendall(ask % ((b"host.pysandbox.internal:%d" % PORT,) * 2))
            if ask.startswith(b"CONNECT"):
                assert b" 200 " in s.recv(999).split(b"\\r\\n")[0] + b" "
                s.sendall(b"\\0 are no words of HTTP")
            return s.recv(999)[:15].decode()
    for n in range(3):  # one that is new, and two that the relay's thread may dial
        attempt("CONNECT %d" % n, through, b"CONNECT %s HTTP/1.1\\r\\nHost: %s\\r\\n\\r\\n")
        attempt("GET %d" % n, through, b"GET http://%s/ HTTP/1.1\\r\\nHost: %s\\r\\n\\r\\n")
"""
HOST = """
    import json, resource, socket, sys, threading
    from pysandbox import PIPE, Cage, Policy, Runtime
    resource.setrlimit(resource.RLIMIT_NOFILE, (1024, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
    listener = socket.create_server(("127.0.0.1", int(sys.argv[3])))
    def serve(one):
        with one:
            one.recv(999), one.sendall(b"HTTP/1.1 200 OK\\r\\nContent-Length: 2\\r\\nConnection: close\\r\\n\\r\\nok")
    def accept():
        while True:
            threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()
    threading.Thread(target=accept, daemon=True).start()
    events = []
    rules = Policy(egress="proxy-only", allow_host_loopback=True)
    runtime = Runtime(warm=0, sink=events.append)
    with Cage(Policy(), runtime=runtime) as hostile, Cage(rules, runtime=runtime) as other:
        asks, said = json.loads(sys.argv[2]), []
        said.append(other.run(asks).stdout)
        with hostile.spawn(json.loads(sys.argv[1]), stdin=PIPE, stdout=PIPE) as taker:
            said.append(taker.stdout.readline().decode())
            pair = socket.socketpair()
            try:
                socket.send_fds(pair[0], [b"x"], [0])
                said.append("sent")
            except OSError as error:
                said.append(error.errno)
            said.append(other.run(asks).stdout)
            with Cage(rules, runtime=runtime) as another:
                said.append(another.run(asks).stdout)
            taker.kill()
        said.append(other.run(asks).stdout)
        said.append(resource.getrlimit(resource.RLIMIT_NOFILE)[0])
    runtime.drain()
    said.append([each.type for each in events if each.type == "gatekeeper.failed"])
    print(json.dumps(said), flush=True)
"""


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def answers(said: str) -> list[str]:
    return [str(each["value"] or each["errno"]) for each in map(json.loads, said.splitlines())]


def test_descriptors_in_flight_leave_the_other_cages_their_doors() -> None:
    port = free_port()
    attack, asks = program(FLIGHT), program("import socket", ASKS, PORT=port)
    with host_script(HOST, json.dumps(attack), json.dumps(asks), str(port)) as host:
        alone, flown, sent, beside, newer, after, limit, failed = json.loads(first_line(host, 120))
        host.wait()
    assert answers(alone) == ["HTTP/1.1 200 OK"] * 6  # the control: nobody attacks
    assert "ETOOMANYREFS" in flown and sent == errno.ETOOMANYREFS, "the control: others are refused"
    assert answers(beside) == answers(newer) == answers(after) == ["HTTP/1.1 200 OK"] * 6
    assert (limit, failed) == (1024, [])


# ---- a chain of forks -----------------------------------------------------------------------------------------------

CHAIN = """
import os, socket, sys, time
s = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
for n in range(int(sys.argv[2])):
    if os.fork():
        break
else:
    print(s.getsockname()[1], flush=True)
time.sleep(600)
"""


def looks(long: int, look: Callable[[int, DoorClient], object]) -> object:
    """What is seen of a socket that a chain of so many processes shares, from above its first."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        place = listener.getsockname()
        command = [sys.executable, "-I", "-S", "-c", CHAIN, str(place[1]), str(long)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True) as first:
            try:
                assert first.stdout is not None
                port = int(first.stdout.readline())
                return look(os.getpid(), DoorClient("tcp", ("127.0.0.1", port), place))
            finally:
                os.killpg(first.pid, 9)
                first.stdout.close()


@pytest.mark.parametrize("long", [1, 8, 64])
def test_who_shares_a_socket_over_a_chain_of_forks_is_looked_up_once(long: int, monkeypatch: Any) -> None:
    monkeypatch.setattr(askers, "MOST_SECONDS", 60.0)
    read: list[int] = []
    status_of = live_askers.status_of
    monkeypatch.setattr(live_askers, "status_of", lambda pid: read.append(pid) or status_of(pid))

    def look(above: int, peer: DoorClient) -> object:
        with served(peer):
            return Askers(above).now()

    found: Any = looks(long, look)
    assert len(found.leaders) == 2 and found.pid is None  # evidence: it was looked at, and more than one holds it
    assert len(read) == 2  # of each holder up to 256 ancestors were


def test_a_look_that_takes_too_long_is_given_up(monkeypatch: Any) -> None:
    def look(above: int, peer: DoorClient) -> object:
        with served(peer):
            return Askers(above).now().leaders

    assert looks(8, look)  # the control
    monkeypatch.setattr(askers, "MOST_SECONDS", 0.0)
    assert looks(8, look) == ()


# ---- a late loop ----------------------------------------------------------------------------------------------------


class Silent:
    """A process that answers nothing, and knows whether it was killed."""

    killed = False

    def kill(self) -> None:
        self.killed = True

    def wait(self) -> None:
        return


@pytest.mark.parametrize("late", [False, True])
def test_nobody_is_ended_for_a_loop_that_is_late(late: bool, monkeypatch: Any) -> None:
    """The control: one that is asked in time, and does not answer, is ended."""
    import asyncio

    for name, value in {"PATIENCE": 1.0, "START_PATIENCE": 1.0, "LOOP_PATIENCE": 1.0}.items():
        monkeypatch.setattr(reader, name, value)
    loop, relay = asyncio.new_event_loop(), type("Relay", (), {"ask": lambda *_: 0})()
    made = DoorReader(loop, lambda _: None, relay)
    made.process = process = Silent()  # type: ignore[assignment]
    near, far = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    monkeypatch.setattr(DoorReader, "_ask", lambda _, asked, told: asked.set())
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    with near, far:
        if late:
            loop.call_soon_threadsafe(time.sleep, 4.0)
        made.catch_up()
        assert process.killed is not late
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
    loop.close()
