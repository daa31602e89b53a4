"""What run-time decisions cost: python -m bench.supervise [--rounds N]

Each row runs the same program in a cage without and in one with decisions, in turns, and prints the ratio of the
medians with its bar. The program measures itself, so that starting it does not count.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass

from pysandbox import Cage, Policy

CONNECT = """
import json, socket, sys, time
to, count, times = ("127.0.0.1", int(sys.argv[1])), int(sys.argv[2]), []
for _ in range(count):
    t = time.perf_counter_ns()
    s = socket.socket()
    s.connect(to)
    s.close()
    times.append(time.perf_counter_ns() - t)
print(json.dumps(times))
"""
CONNECT_ALONE = """
import json, socket, sys, time
to, count, times = ("127.0.0.1", int(sys.argv[1])), int(sys.argv[2]), []
for _ in range(count):
    s = socket.socket()
    t = time.perf_counter_ns()
    s.connect(to)
    times.append(time.perf_counter_ns() - t)
    s.close()
print(json.dumps(times))
"""
ROUND_TRIP = """
import json, socket, sys, time
s = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
data, times = b"x" * 256, []
for _ in range(int(sys.argv[2])):
    t = time.perf_counter_ns()
    s.sendall(data)
    s.recv(256)
    times.append(time.perf_counter_ns() - t)
print(json.dumps(times))
"""
FILES = """
import json, os, sys, time
os.chdir("/tmp")
t = time.perf_counter_ns()
for i in range(int(sys.argv[2])):
    name = f"f{i}"
    fd = os.open(name, os.O_CREAT | os.O_RDWR)
    os.write(fd, b"x")
    os.close(fd)
    os.stat(name)
    fd = os.open(name, os.O_RDONLY)
    os.read(fd, 1)
    os.close(fd)
    os.unlink(name)
print(json.dumps([time.perf_counter_ns() - t]))
"""
SHELL = """
import json, subprocess, sys, time
t = time.perf_counter_ns()
loop = 'i=0; while [ $i -lt $1 ]; do /bin/true; i=$((i+1)); done'
subprocess.run(["/bin/sh", "-c", loop, "sh", sys.argv[2]], check=True)
print(json.dumps([time.perf_counter_ns() - t]))
"""
SERVER = """
import socket, sys, threading
def echo(c):
    with c:
        while data := c.recv(65536):
            c.sendall(data)
with socket.create_server(("127.0.0.1", 0), backlog=4096) as listener:
    print(listener.getsockname()[1], flush=True)
    threading.Thread(target=lambda: (sys.stdin.read(), listener.close()), daemon=True).start()
    while True:
        threading.Thread(target=echo, args=(listener.accept()[0],), daemon=True).start()
"""


def allow_all(event: object, context: object) -> None:
    """A callback that has no objection."""


@contextmanager
def server() -> Iterator[int]:
    """An echo server in a process of its own, which no thread of this one holds up."""
    process = subprocess.Popen([sys.executable, "-c", SERVER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        yield int(process.stdout.readline())
    finally:
        process.kill()
        process.communicate()


@contextmanager
def spinning() -> Iterator[None]:
    """A thread of the host that holds the interpreter lock whenever it can."""
    stop = threading.Event()

    def spin() -> None:
        while not stop.is_set():
            sum(range(1000))

    thread = threading.Thread(target=spin)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


@dataclass(frozen=True)
class Row:
    """One program, run under two ways of making a cage."""

    name: str
    program: str
    count: int
    bar: float
    plain: Callable[[], Cage]
    decided: Callable[[], Cage]
    meanwhile: Callable[[], AbstractContextManager[None]] = nullcontext


HOST_NETWORK = Policy(isolation="landlock", run_as="self", egress="direct", unsafe_direct=True)
LISTED = Policy(isolation="landlock", run_as="self", allow_ips=("127.0.0.0/8",))
TRUE_ALLOWED = Policy(allow_execve=("/usr/bin/*", "/bin/*"))

ROWS = (
    Row("connection, by table", CONNECT, 300, 2.0, lambda: Cage(HOST_NETWORK), lambda: Cage(LISTED)),
    Row("connection, by table, host busy", CONNECT, 300, 2.5, lambda: Cage(HOST_NETWORK), lambda: Cage(LISTED),
        spinning),
    Row("connect(2) alone, by table", CONNECT_ALONE, 300, 0.0, lambda: Cage(HOST_NETWORK), lambda: Cage(LISTED)),
    Row("connection, by callback", CONNECT, 100, 0.0, lambda: Cage(HOST_NETWORK),
        lambda: Cage(LISTED, policy_fn=allow_all)),
    Row("round trip, connected", ROUND_TRIP, 1000, 1.05, lambda: Cage(HOST_NETWORK), lambda: Cage(LISTED)),
    Row("300 x /bin/true, list", SHELL, 300, 1.15, lambda: Cage(Policy()), lambda: Cage(TRUE_ALLOWED)),
    Row("300 x /bin/true, callback", SHELL, 300, 1.5, lambda: Cage(Policy()),
        lambda: Cage(Policy(), policy_fn=allow_all)),
    Row("20,000 files, callback", FILES, 20_000, 1.05, lambda: Cage(Policy()),
        lambda: Cage(Policy(), policy_fn=allow_all)),
)  # fmt: skip


def measure(row: Row, rounds: int, port: int) -> tuple[list[int], list[int]]:
    """Nanoseconds, of the plain cage and of the one with decisions."""
    samples: tuple[list[int], list[int]] = ([], [])
    with row.meanwhile():
        for _ in range(rounds):
            for kept, make in zip(samples, (row.plain, row.decided), strict=True):
                result = make().run(["python3", "-c", row.program, str(port), str(row.count)], check=True)
                kept += json.loads(result.stdout)
    return samples


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--only", default="", help="rows whose name holds this")
    arguments = parser.parse_args()
    print(f"{'':32} {'plain us':>10} {'decided us':>10} {'p99 us':>8} {'ratio':>6} {'bar':>6}")
    with server() as port:
        for row in ROWS:
            if arguments.only not in row.name:
                continue
            plain, decided = measure(row, arguments.rounds, port)
            one, other = statistics.median(plain), statistics.median(decided)
            worst = sorted(decided)[len(decided) * 99 // 100 - (len(decided) > 99)]
            bar = f"{row.bar:.2f}" if row.bar else "-"
            print(f"{row.name:32} {one / 1e3:10.1f} {other / 1e3:10.1f} {worst / 1e3:8.0f} {other / one:6.2f} {bar:>6}")


if __name__ == "__main__":
    main()
