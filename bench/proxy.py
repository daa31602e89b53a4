"""What the inspector of TLS costs, beside a direct client and server: python -m bench.proxy [--rounds N] [--only WORD]

A program asks a server over loopback, by turns directly and through the inspector, which this process feeds with
connected sockets as the gatekeeper would; names and doors are bench.network's. Client, server and inspector are
processes of their own; the ends cost as little as Python lets them: nothing large is copied or made while it is
measured. Each ratio is the median of those of the rounds; beside it stands what the inspector itself spends on one of
them, which says the same on a machine that has other work too, and `relayed`: the ratio of a relay that reads and
writes TLS on both sides and looks at nothing, which is what anything in this place costs here.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path

from _support.chain import write_chain
from _support.gate import net_plan
from _support.inspected import Session
from pysandbox.compile.plan import Contract, HostGrant, InspectionPlan
from pysandbox.events import ignore
from pysandbox.gate.held import held_for
from pysandbox.gate.inspector import InspectorProcess
from pysandbox.gate.ledger import Ledger
from pysandbox.gate.tcp.target import DialTarget
from pysandbox.shapes import NamedTuple, replace

CONTRACT = Contract(("GET", "POST"), ("/asked/",), (), 1 << 30)
IDLE, CAGES = 1000, 200
SERVER = r"""
import socket, ssl, sys, threading, time
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(sys.argv[1])
LARGE, SMALL = bytes(8 << 20), bytes(1024)
def answer(tls, body):
    tls.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + (b"" if body is LARGE else body))
    if body is LARGE: tls.sendall(body)
def serve(far):
    room = bytearray(262144)
    far.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    with far, context.wrap_socket(far, server_side=True) as tls:
        while True:
            said = b""
            while b"\r\n\r\n" not in said:
                part = tls.recv(65536)
                if not part: return
                said += part
            head, _, rest = said.partition(b"\r\n\r\n")
            if b"/asked/events" in head:
                tls.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n")
                for _ in range(50):
                    time.sleep(.01)
                    tls.sendall(b"data: %d\n\n" % time.monotonic_ns())
                return
            left = (8 << 20) - len(rest) if head.startswith(b"POST") else 0
            while left > 0: left -= tls.recv_into(room)
            answer(tls, LARGE if b"/asked/large" in head else SMALL)
def quietly(far):
    try: serve(far)
    except OSError: pass
listener = socket.create_server(("127.0.0.1", 0), backlog=256)
print(listener.getsockname()[1], flush=True)
while True: threading.Thread(target=quietly, args=(listener.accept()[0],), daemon=True).start()
"""
RELAY = r"""
import select, socket, ssl, sys
server, both, ca = int(sys.argv[1]), sys.argv[2], sys.argv[3]
near, beyond = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.create_default_context(cafile=ca)
near.load_cert_chain(both)
room = memoryview(bytearray(16384))
def relay(one, other):
    for each in (one, other): each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    other = beyond.wrap_socket(other, server_hostname="n0.bench.example")
    with other as two, near.wrap_socket(one, server_side=True) as one:
        across = {one: two, two: one}
        for each in across: each.settimeout(0)
        while True:
            for side in [each for each in across if each.pending()] or select.select([one, two], [], [])[0]:
                try: size = side.recv_into(room)
                except ssl.SSLWantReadError: continue
                if not size: return
                across[side].settimeout(30)
                across[side].sendall(room[:size])
                across[side].settimeout(0)
listener = socket.create_server(("127.0.0.1", 0), backlog=256)
print(listener.getsockname()[1], flush=True)
while True:
    try: relay(listener.accept()[0], socket.create_connection(("127.0.0.1", server)))
    except OSError: pass
"""
CLIENT = r"""
import json, socket, ssl, sys, time
row, port, ca, first = sys.argv[1], int(sys.argv[2]), sys.argv[3], int(sys.argv[4])
context = ssl.create_default_context(cafile=ca)
LARGE, ROOM = bytes(8 << 20), bytearray(262144)
def connect(number=0):
    near = socket.create_connection(("127.0.0.1", port), 30)
    near.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return context.wrap_socket(near, server_hostname="n%d.bench.example" % number)
def ask(tls, number=0, what=b"small", method=b"GET", body=b""):
    length = b"Content-Length: %d\r\n" % len(body) if body else b""
    head = b"%s /asked/%s HTTP/1.1\r\nHost: n%d.bench.example\r\n%s\r\n" % (method, what, number, length)
    tls.sendall(head)
    if body: tls.sendall(body)
    said = bytearray()
    while b"\r\n\r\n" not in said: said += tls.recv(262144)
    head, _, rest = bytes(said).partition(b"\r\n\r\n")
    assert b" 200 " in head, head
    left = int(head.lower().partition(b"content-length: ")[2].split()[0]) - len(rest)
    while left > 0: left -= tls.recv_into(ROOM)
def timed(call):
    began = time.perf_counter_ns()
    call()
    return (time.perf_counter_ns() - began) / 1e6
def new(number):
    with connect(number) as tls: ask(tls, number)
if row == "new": samples = [timed(lambda: new(0)) for _ in range(15)]
elif row == "first": samples = [timed(lambda: new(each)) for each in range(first, first + 10)]
elif row == "events":
    samples, rest = [], b""
    with connect() as tls:
        tls.sendall(b"GET /asked/events HTTP/1.1\r\nHost: n0.bench.example\r\n\r\n")
        while part := tls.recv(65536):
            now = time.monotonic_ns()
            rest += part
            if b"data: " in part: samples.append((now - int(part.rpartition(b"data: ")[2].split()[0])) / 1e6)
else:
    with connect() as tls:
        ask(tls)
        if row == "get": samples = [timed(lambda: ask(tls)) for _ in range(100)]
        elif row == "down": samples = [timed(lambda: ask(tls, what=b"large")) for _ in range(6)]
        else: samples = [timed(lambda: ask(tls, method=b"POST", body=LARGE)) for _ in range(6)]
print(json.dumps(samples))
"""
ROWS = {  # (of the client, its bar as a ratio or None, what is told)
    "keep-alive GET of 1 KiB, contract checked": ("get", 3.0),
    "new HTTPS connection, leaf cached": ("new", 2.0),
    "new HTTPS connection, first of a name": ("first", None),
    "8 MiB down": ("down", 1 / 0.6),
    "8 MiB up": ("up", 1 / 0.6),
    "an event of text/event-stream, until it is read": ("events", None),
}


RELAYED = ("get", "new", "down", "up")


class Ends(NamedTuple):
    """Ports, and what a client trusts: directly, and behind the inspector."""

    server: int
    relay: int
    own: str
    trusted: str


class Door:
    """Hands what is accepted to the inspector, as the gatekeeper would."""

    def __init__(self, inspector: InspectorProcess, server: int, ca: str) -> None:
        grant = HostGrant("*.bench.example", (), False, CONTRACT)
        self.net = replace(net_plan(), hosts=(grant,), inspection=InspectionPlan(30_000, 1 << 30, (ca,)))
        self.session = Session(self.net, Ledger("cage", ignore), number=1)
        self.sessions = [self.session]  # of whom connections are, by turns
        self.inspector, self._server, self.numbers = inspector, server, iter(lambda: 0, 1)
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=256)
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        with suppress(OSError):
            while True:
                client = self._listener.accept()[0]
                with client, socket.create_connection(("127.0.0.1", self._server)) as server:
                    for each in (client, server):
                        each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                    self.hand_over(client, server)

    def hand_over(self, client: socket.socket, server: socket.socket) -> None:
        target = DialTarget(f"n{next(self.numbers)}.bench.example", 443)
        self.sessions.append(self.sessions.pop(0))
        held = held_for(self.sessions[-1], target, CONTRACT, True, lambda _: None)
        self.inspector.open(held, b"", client, server, proxied=False)

    def close(self) -> None:
        for each in (self.session, *self.sessions):
            each.ended = True
        self._listener.close()


def client(row: str, port: int, ca: str, first: int) -> list[float]:
    command = [sys.executable, "-I", "-c", CLIENT, row, str(port), ca, str(first)]
    samples: list[float] = json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)
    return samples


@contextmanager
def busy() -> Iterator[None]:
    """A thread of this process computes."""
    ends = threading.Event()

    def compute() -> None:
        while not ends.is_set():
            sum(range(10_000))

    thread = threading.Thread(target=compute)
    thread.start()
    try:
        yield
    finally:
        ends.set()
        thread.join()


class Measured(NamedTuple):
    """Medians in ms: direct, through the inspector, and what it spends itself; and of the ratios of each round to the
    direct one: through the inspector, and through a relay that looks at nothing."""

    direct: float
    looked: float
    spent: float
    ratio: float
    relayed: float


def compare(door: Door, ends: Ends, row: str, rounds: int) -> Measured:
    found: list[Measured] = []
    for number in range(rounds):
        first = 1 + number * 10
        door.numbers = iter(range(first, first + 10)) if row == "first" else iter(lambda: 0, 1)
        direct = statistics.median(client(row, ends.server, ends.own, first))
        before = processor_seconds(door.inspector)
        samples = client(row, door.port, ends.trusted, first)
        spent = (processor_seconds(door.inspector) - before) * 1000 / len(samples)
        looked = statistics.median(samples)
        relayed = statistics.median(client(row, ends.relay, ends.own, first)) if row in RELAYED else 0.0
        found.append(Measured(direct, looked, spent, looked / direct, relayed / direct))
    return Measured(*map(statistics.median, zip(*found, strict=True)))


def processor_seconds(inspector: InspectorProcess) -> float:
    """What it has spent, whatever else this machine does."""
    assert inspector.process is not None
    with open(f"/proc/{inspector.process.pid}/schedstat") as file:
        return int(file.read().split()[0]) / 1e9


def memory(inspector: InspectorProcess) -> tuple[str, float]:
    """MiB: its PSS, for root; for anybody else its RSS, shared pages among them, since its memory is its own."""
    assert inspector.process is not None
    with suppress(PermissionError), open(f"/proc/{inspector.process.pid}/smaps_rollup") as file:
        return "PSS", next(int(line.split()[1]) for line in file if line.startswith("Pss:")) / 1024
    with open(f"/proc/{inspector.process.pid}/statm") as file:
        return "RSS", int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / (1 << 20)


def idle(door: Door, trusted: str) -> str:
    """What it needs with no connection, and what each of many idle ones adds, of many cages."""
    import ssl

    context, (kind, before) = ssl.create_default_context(cafile=trusted), memory(door.inspector)
    door.sessions = [Session(door.net, Ledger("cage", ignore), number=2 + each) for each in range(CAGES)]
    with ExitStack() as undo:
        for _ in range(IDLE):
            near = socket.create_connection(("127.0.0.1", door.port), 30)
            tls = undo.enter_context(context.wrap_socket(near, server_hostname="n0.bench.example"))
            tls.sendall(b"GET /asked/small HTTP/1.1\r\nHost: n0.bench.example\r\n\r\n")
            tls.recv(65536)
        each = (memory(door.inspector)[1] - before) * 1024 / IDLE
    return f"memory ({kind}): {before:.1f} MiB + {each:.0f} KiB for each of {IDLE} idle connections of {CAGES} cages"


def measure(say: Callable[[str], object], rounds: int, only: str) -> None:
    with tempfile.TemporaryDirectory(prefix="bench-proxy-") as name, ExitStack() as undo:
        both, own = write_chain(Path(name), "*.bench.example")
        server = undo.enter_context(listening(SERVER, both))
        relay = undo.enter_context(listening(RELAY, str(server), both, own))
        inspector = InspectorProcess(ignore)
        undo.callback(inspector.retire)
        door = Door(inspector, server, own)
        undo.callback(door.close)
        began = time.perf_counter()
        ends = Ends(server, relay, own, inspector.trust(door.net))
        say(f"start of the inspector, in the background: {(time.perf_counter() - began) * 1000:.0f} ms (bar 250)")
        say(f"{'':48}{'direct':>9}{'looked into':>13}{'ratio':>7}{'bar':>6}{'its own':>9}  ms  relayed")
        for told, (row, bar) in ROWS.items():
            if only in told:
                found = compare(door, ends, row, rounds)
                shown = f"{bar:.1f}" if bar else {"first": "+4 ms", "events": "2 ms"}[row]
                beside = f"{found.relayed:9.2f}" if found.relayed else ""
                say(
                    f"{told:48}{found.direct:9.3f}{found.looked:13.3f}{found.ratio:7.2f}{shown:>6}{found.spent:9.3f}"
                    f"    {beside}"
                )
        if only in "busy host":
            calm = compare(door, ends, "get", rounds).looked
            with busy():
                say(f"GET while the host program computes, to idle: "
                    f"{compare(door, ends, 'get', rounds).looked / calm:.2f} (bar 1.5)")  # fmt: skip
        if only in "memory":
            say(f"{idle(door, ends.trusted)} (bar 30 + 60, of PSS)")


@contextmanager
def listening(program: str, *arguments: str) -> Iterator[int]:
    """The port that it says."""
    with subprocess.Popen([sys.executable, "-I", "-c", program, *arguments], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        try:
            yield int(process.stdout.readline())
        finally:
            process.kill()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.proxy", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=5, help="of each row (5)")
    parser.add_argument("--only", default="", help="rows whose name holds this")
    given = parser.parse_args()
    measure(partial(print, flush=True), given.rounds, given.only)


if __name__ == "__main__":
    main()
