"""Claim: without a cgroup, memory_mb counts what the kernel holds for unix sockets and descriptors beyond the usual,
wherever the sockets are: in processes, or on their way through another socket; and what lies in TCP and UDP sockets.
"""

from __future__ import annotations

import pytest

import pysandbox
from pysandbox import Policy
from pysandbox.probe import cgroups

from .harness import caged, program

LIMIT_MB = 256
pytestmark = pytest.mark.skipif(
    "memory" in cgroups.find_cgroup().controllers, reason="the kernel's controller counts all"
)

FILL = """
    import array, socket
    def fill(a):
        a.setblocking(False)
        try:
            while True:
                a.send(b"x" * 65536)
        except BlockingIOError:
            pass
    def full(kept, kind):
        a, b = socket.socketpair(socket.AF_UNIX, kind)
        fill(a), fill(b)
        kept += [a, b]
"""
SOCKETS = (
    FILL
    + """
    kept = []
    for _ in range(PROCESSES - 1):
        if os.fork() == 0:
            break
    for _ in range(100):
        full(kept, socket.SOCK_STREAM)
    signal.pause()
"""
)
IN_FLIGHT = (
    FILL
    + """
    carriers = []
    for _ in range(10):
        a, b = socket.socketpair()
        for _ in range(100):
            kept = []
            full(kept, socket.SOCK_STREAM)
            fds = array.array("i", [each.fileno() for each in kept])
            a.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, fds)])
            [each.close() for each in kept]
        carriers += [a, b]
    signal.pause()
"""
)
INET = """
    import socket
    kept = []
    for _ in range(PROCESSES - 1):
        if os.fork() == 0:
            break
    server = socket.create_server(("127.0.0.1", 0))
    for _ in range(20):
        there = socket.create_connection(server.getsockname())
        here = server.accept()[0]
        kept += [there, here]
        for each in (there, here):
            each.setblocking(False)
            try:
                while True:
                    each.send(bytes(65536))
            except BlockingIOError:
                pass
    signal.pause()
"""
PIPES = """
    kept = []
    for _ in range(PROCESSES - 1):
        if os.fork() == 0:
            break
    for _ in range(1500):
        kept += os.pipe()
        os.write(kept[-1], b"x" * 4096)
    signal.pause()
"""


@pytest.mark.parametrize("attack", [SOCKETS, IN_FLIGHT, INET, PIPES], ids=["sockets", "in flight", "TCP", "pipes"])
def test_who_fills_them_is_out_of_memory(attack: str) -> None:
    result = pysandbox.run(program(attack, PROCESSES=24), policy=Policy(memory_mb=LIMIT_MB), timeout=60)

    assert result.reason == "oom", result.stderr


HIDDEN = "\n    import ctypes; ctypes.CDLL(None).prctl(4, 0)  # PR_SET_DUMPABLE" + SOCKETS
SEQPACKETS = SOCKETS.replace("SOCK_STREAM", "SOCK_SEQPACKET")
THREADS = (
    FILL
    + """
    import ctypes, threading
    def alone():
        ctypes.CDLL(None).unshare(0x400)  # CLONE_FILES: a table of descriptors of its own
        for _ in range(60):
            full(kept, socket.SOCK_STREAM)
        signal.pause()
    kept = []
    for _ in range(PROCESSES - 1):
        if os.fork() == 0:
            break
    for _ in range(4):
        threading.Thread(target=alone).start()
    signal.pause()
"""
)
HOST_S_NETWORK = {
    "landlock": {"isolation": "landlock", "run_as": "self"},
    "direct": {"egress": "direct", "unsafe_direct": True},
}


@pytest.mark.parametrize("where", HOST_S_NETWORK)
@pytest.mark.parametrize(
    "attack", [SOCKETS, SEQPACKETS, HIDDEN, THREADS], ids=["stream", "packets", "hidden", "threads"]
)
def test_without_a_network_of_its_own_too(attack: str, where: str) -> None:
    rules = Policy(memory_mb=LIMIT_MB, walltime_sec=30, **HOST_S_NETWORK[where])  # type: ignore[arg-type]
    result = pysandbox.run(program(attack, PROCESSES=24), policy=rules, timeout=60)

    assert result.reason == "oom", result.stderr


@pytest.mark.parametrize("where", HOST_S_NETWORK)
def test_nor_do_descriptors_that_are_no_sockets_and_a_usual_number_count_there(where: str) -> None:
    few = """
        import threading
        kept = [open("/dev/null") for _ in range(300)] + [socket.socketpair() for _ in range(100)]
        for _ in range(8):
            threading.Thread(target=time.sleep, args=(1,)).start()
        for _ in range(3):
            if os.fork() == 0:
                break
        time.sleep(1)
    """
    rules = Policy(memory_mb=128, **HOST_S_NETWORK[where])  # type: ignore[arg-type]
    result = pysandbox.run(program("import socket, time", few), policy=rules, timeout=60)
    assert (result.reason, result.exit_code) == ("exited", 0), result.stderr


SYSTEM_V = """
    attempt("a set of 32,000 semaphores", call, "semget", 0, 32000, 0o1600)
    attempt("a queue", call, "msgget", 0, 0o1600)
    attempt("a segment", call, "shmget", 0, 4096, 0o1600)
"""


def test_what_no_process_holds_cannot_be_made() -> None:
    """A namespace may have 32,000 of each: 64 GiB of semaphores, 500 MiB in queues, and nobody's to look at."""
    control = caged(program(SYSTEM_V), Policy())
    assert [name for name, each in control.attempts.items() if each.errno] == [], "the control: without a limit it can"
    attack = caged(program(SYSTEM_V), Policy(memory_mb=LIMIT_MB))
    assert [each.errno for each in attack.attempts.values()] == ["EPERM"] * 3


def test_a_usual_number_costs_nothing() -> None:
    few = SOCKETS.replace("range(100)", "range(60)").replace("signal.pause()", "time.sleep(1)")
    result = pysandbox.run(program("import time", few, PROCESSES=2), policy=Policy(memory_mb=64), timeout=60)

    assert (result.reason, result.exit_code) == ("exited", 0), result.stderr


def test_connections_that_carry_little_cost_little() -> None:
    few = INET.replace("bytes(65536)", "bytes(10)").replace("while True", "for _ in range(10)")
    few = few.replace("signal.pause()", "time.sleep(1)")
    result = pysandbox.run(program("import time", few, PROCESSES=2), policy=Policy(memory_mb=64), timeout=60)

    assert (result.reason, result.exit_code) == ("exited", 0), result.stderr
