"""Claim: whatever a cage has the supervisor do - close a socket that lingers, send without end, read memory that is
being mapped, wait in a crowd - the calls of another cage, and closing either, do not wait for it.
"""

from __future__ import annotations

import os
import resource
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

import pysandbox
from pysandbox import Cage, Policy
from pysandbox.runtime.runtime import Runtime

from .harness import SLOWNESS, program, wait_until

MOST = 0.1 * SLOWNESS  # seconds that a call of another cage takes, as the median of many
PATIENT = 2.0 * SLOWNESS  # ... and that closing a cage takes; the attacks below ask for minutes
RULES = Policy(scm_rights="deny")

LINGERS = """
    import socket, struct, time
    server = socket.create_server(("127.0.0.1", 8000))  # it never reads
    pid = os.fork()
    if pid == 0:
        c = socket.create_connection(("127.0.0.1", 8000))
        c.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 300))
        c.setblocking(False)
        try:
            while True:
                c.send(b"x" * 65536)
        except BlockingIOError:
            pass
        c.setblocking(True)
        c.sendmsg([b"y" * 65536])  # waits in the supervisor, which holds a duplicate
        os._exit(0)
    time.sleep(0.5)
    os.kill(pid, 9)  # ... which is the last one then
    os.waitpid(pid, 0)
    say("ready")
    time.sleep(300)
"""
FLOODS = """
    import socket, struct, threading

    class Vector(ctypes.Structure):
        _fields_ = [("base", ctypes.c_void_p), ("size", ctypes.c_size_t)]

    class Message(ctypes.Structure):
        _fields_ = [("name", ctypes.c_void_p), ("name_size", ctypes.c_uint), ("vectors", ctypes.c_void_p),
                    ("count", ctypes.c_size_t), ("control", ctypes.c_void_p), ("control_size", ctypes.c_size_t),
                    ("flags", ctypes.c_int), ("sent", ctypes.c_uint)]

    sink = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sink.bind(("127.0.0.1", 0))
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    s.connect(sink.getsockname())
    data = ctypes.create_string_buffer(65000)
    vector = Vector(ctypes.addressof(data), 65000)
    messages = (Message * 1024)()
    for each in messages:
        each.vectors, each.count = ctypes.addressof(vector), 1

    def flood():
        while True:
            libc.syscall(NR["sendmmsg"], s.fileno(), messages, 1024, 0)

    for _ in range(4):
        threading.Thread(target=flood).start()
    say("ready")
"""
MAPS = """
    import socket, threading
    libc.mmap.restype = ctypes.c_void_p
    SIZE = 2 << 30
    at = ctypes.c_void_p(libc.mmap(None, ctypes.c_size_t(SIZE), 1, 0x4022, -1, ctypes.c_long(0)))
    assert at.value != ctypes.c_void_p(-1).value, ctypes.get_errno()
    for offset in range(0, SIZE, 4096):  # zero pages: they cost page tables alone
        ctypes.c_char.from_address(at.value + offset).value

    def protect():
        while True:
            libc.mprotect(at, ctypes.c_size_t(SIZE), 0)
            libc.mprotect(at, ctypes.c_size_t(SIZE), 1)

    def send():
        a, b = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
        while True:
            a.sendmsg([b"x"])
            b.recv(1)

    for each in (protect, send, send):
        threading.Thread(target=each).start()
    say("ready")
"""
CROWDS = """
    import socket, threading, time
    threading.stack_size(65536)
    listener = socket.socket(socket.AF_UNIX)
    listener.bind("\\0full")
    listener.listen(0)
    errors = []

    def knock():
        s = socket.socket(socket.AF_UNIX)
        try:
            s.connect("\\0full")
            time.sleep(300)
        except OSError as error:
            errors.append(error.errno)

    for _ in range(1200):
        threading.Thread(target=knock, daemon=True).start()
    time.sleep(1)
    say("ready", sorted(set(errors)))
    time.sleep(300)
"""
CALLS = """
    import socket, time
    a, b = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    times = []
    for _ in range(60):
        began = time.monotonic()
        a.sendmsg([b"x"])
        times.append(time.monotonic() - began)
        b.recv(1)
        time.sleep(0.01)
    say("calls", [sorted(times)[30], max(times)])
"""


@contextmanager
def beside(attack: str, rules: Policy) -> Iterator[tuple[Cage, bytes]]:
    """A cage of the same program, while another one attacks; both are closed soon."""
    runtime = Runtime(warm=0)
    with Cage(RULES, runtime=runtime) as other, Cage(rules, runtime=runtime) as hostile:
        process = hostile.spawn(program(attack), stdout=pysandbox.PIPE)
        assert process.stdout is not None
        ready = process.stdout.readline()
        assert b"ready" in ready
        yield other, ready
        began = time.monotonic()
    assert time.monotonic() - began < PATIENT
    process.kill()
    process.wait()
    process.stdout.close()
    runtime.drain()


@pytest.mark.parametrize("attack", [LINGERS, FLOODS, MAPS], ids=["lingers", "floods", "maps"])
def test_another_cage_s_calls_go_on(attack: str) -> None:
    with beside(attack, RULES) as (other, _):
        report = other.run(program(CALLS), timeout=60, check=True)
    said = str(report.stdout)
    median, worst = (float(each) for each in said[said.index("[") + 1 : said.index("]")].split(","))
    assert median < MOST, (median, worst)
    assert worst < 10 * MOST, (median, worst)


def test_a_crowd_of_waiting_calls_is_bounded() -> None:
    """Those that may wait have a part of the host's descriptors; the others fail as if the queue were full."""
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    before = len(os.listdir("/proc/self/fd"))
    with beside(CROWDS, Policy(scm_rights="deny", allow_ips=["192.0.2.7:443"])) as (other, ready):
        assert len(os.listdir("/proc/self/fd")) - before < most // 4 + 64
        assert b"[11]" in ready or most > 8192  # EAGAIN
        other.run(["/bin/true"], check=True)
    assert wait_until(lambda: len(os.listdir("/proc/self/fd")) <= before + 16, 5)
