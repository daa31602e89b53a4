"""What the inspector costs a connection in HTTP/2: python -m bench.http2 [--rounds N] [--only WORD]

One connection, by turns straight to the server and through the inspector, which this process feeds as `bench.proxy`
does. Client and server write frames that were made before, and look at no more of what comes than where a frame ends:
the inspector is what is measured.
"""

from __future__ import annotations

import argparse
import json
import socket
import statistics
import subprocess
import sys
import tempfile
from contextlib import ExitStack, suppress
from pathlib import Path

from _support.inspected import write_certificate
from bench.proxy import CONTRACT, Door, processor_seconds
from pysandbox.events import ignore
from pysandbox.gate.held import held_for
from pysandbox.gate.inspector import InspectorProcess
from pysandbox.gate.tcp.target import DialTarget

FRAMES = r"""
import socket, ssl, struct, sys, threading, time
WIDE, PIECE, LARGE = 1 << 30, 16384, 64 << 20
def frame(kind, flags, stream, said=b""):
    return struct.pack("!BHBBI", len(said) >> 16, len(said) & 0xffff, kind, flags, stream) + said
def update(stream, size): return frame(8, 0, stream, struct.pack("!I", size))
START = frame(4, 0, 0, struct.pack("!HI", 4, WIDE)) + update(0, WIDE)
class Wire:
    def __init__(self, tls): self.tls, self.rest, self.room = tls, bytearray(), {0: 65535}
    def frames(self):
        self.rest += self.tls.recv(262144) or b""
        at = 0
        while len(self.rest) - at >= 9:
            high, low, kind, flags, stream = struct.unpack_from("!BHBBI", self.rest, at)
            size = high << 16 | low
            if len(self.rest) - at < 9 + size: break
            said = bytes(self.rest[at + 9:at + 9 + size]) if kind in (4, 8) else size
            at += 9 + size
            if kind == 8: self.room[stream] = self.room.get(stream, 0) + struct.unpack("!I", said)[0]
            elif kind == 4 and not flags & 1:
                self.first = dict(struct.iter_unpack("!HI", said)).get(4, 65535)
                self.tls.sendall(frame(4, 1, 0))
            else: yield kind, flags, stream, said
        del self.rest[:at]
    def send(self, stream, left):
        self.room[stream] = self.room.get(stream, 0) + self.first
        while left:
            size = min(left, self.room[0], self.room[stream], 8 * PIECE)
            if not size:
                for _ in self.frames(): pass
                continue
            for each in (self.room,): each[0] -= size; each[stream] -= size
            left -= size
            pieces = [min(PIECE, size - at) for at in range(0, size, PIECE)]
            self.tls.sendall(b"".join(frame(0, 0, stream, bytes(each)) for each in pieces))
        self.tls.sendall(frame(0, 1, stream))
"""
SERVER = (
    FRAMES
    + r"""
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(sys.argv[1])
context.set_alpn_protocols(["h2"])
def serve(far):
    far.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    with far, context.wrap_socket(far, server_side=True) as tls:
        while len(preface := tls.recv(24)) < 24: return
        wire, large, took = Wire(tls), {}, 0
        tls.sendall(START)
        while True:
            out = []
            before = len(wire.rest)
            for kind, flags, stream, size in wire.frames():
                if kind == 1 and size > 60: large[stream] = True
                if kind == 0: took += size
                if flags & 1 and kind in (0, 1):
                    if large.pop(stream, False) and kind == 1:
                        tls.sendall(frame(1, 4, stream, b"\x88"))
                        wire.send(stream, LARGE)
                    else: out.append(frame(1, 4, stream, b"\x88") + frame(0, 1, stream, bytes(1024)))
            if took > 1 << 20: out.append(update(0, took)); took = 0
            if out: tls.sendall(b"".join(out))
def quietly(far):
    try: serve(far)
    except OSError: pass
listener = socket.create_server(("127.0.0.1", 0))
print(listener.getsockname()[1], flush=True)
while True: threading.Thread(target=quietly, args=(listener.accept()[0],), daemon=True).start()
"""
)
CLIENT = (
    FRAMES
    + r"""
import json
row, port, ca = sys.argv[1], int(sys.argv[2]), sys.argv[3]
context = ssl.create_default_context(cafile=ca)
context.set_alpn_protocols(["h2"])
NAME = b"n0.bench.example"
def asked(stream, method=b"\x82", more=b"", flags=5):
    path = b"/asked/small"
    said = b"\x87\x44" + bytes((len(path),)) + path + b"\x41" + bytes((len(NAME),)) + NAME
    return frame(1, flags, stream, method + said + more)
near = socket.create_connection(("127.0.0.1", port), 30)
near.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
with context.wrap_socket(near, server_hostname=NAME.decode()) as tls:
    assert tls.selected_alpn_protocol() == "h2"
    wire = Wire(tls)
    tls.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + START)
    stream, ended = 1, 0
    if row == "one":
        tls.sendall(asked(1)); stream = 3
        samples = []
        for _ in range(300):
            began = time.perf_counter()
            tls.sendall(asked(stream)); stream += 2
            while not any(flags & 1 for kind, flags, _, _ in wire.frames() if kind == 0): pass
            samples.append((time.perf_counter() - began) * 1e6)
        print(json.dumps(sorted(samples)[len(samples) // 2]))
    elif row == "many":
        began, count = time.perf_counter(), 3000
        tls.sendall(b"".join(asked(each) for each in range(1, 101, 2))); stream = 101
        while ended < count:
            over = sum(flags & 1 for kind, flags, _, _ in wire.frames() if kind == 0)
            ended += over
            more, stream = range(stream, stream + 2 * over, 2), stream + 2 * over
            if over: tls.sendall(b"".join(map(asked, more)))
        print(json.dumps(count / (time.perf_counter() - began)))
    else:
        began = time.perf_counter()
        if row == "down":
            tls.sendall(asked(1, more=b"\x40\x01x\x3c" + b"a" * 60))
            while not ended: ended = sum(flags & 1 for kind, flags, _, _ in wire.frames() if kind == 0)
        else:
            tls.sendall(asked(1, b"\x83", flags=4))
            while not hasattr(wire, "first"):
                for _ in wire.frames(): pass
            wire.send(1, LARGE)
            while not ended: ended = sum(flags & 1 for kind, flags, _, _ in wire.frames() if kind == 0)
        print(json.dumps(LARGE / (time.perf_counter() - began) / 1e6))
"""
)
ROWS = {  # the row of the client, what is told, its bar
    "one": ("GET of 1 KiB, one after the other, us", "<= 7 x"),
    "many": ("GET of 1 KiB, 50 at a time, requests/s", ">= 1200"),
    "down": ("64 MiB down, MB/s", ">= 100"),
    "up": ("64 MiB up, MB/s", ">= 100"),
}


REQUESTS = {"one": 301, "many": 3000}


class Http2Door(Door):
    """Hands the client's hello over with it, which says what its client speaks."""

    def hand_over(self, client: socket.socket, server: socket.socket) -> None:
        held = held_for(self.session, DialTarget("n0.bench.example", 443), CONTRACT, True, lambda _: None)
        self.inspector.open(held, client.recv(65536), client, server, proxied=False)


def client(row: str, port: int, ca: str) -> float:
    command = [sys.executable, "-I", "-c", CLIENT, row, str(port), ca]
    return float(json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout))


def per(row: str, seconds: float) -> str:
    if row in REQUESTS:
        return f"{seconds / REQUESTS[row] * 1e6:.0f} us a request"
    return f"{(64 << 20) / 1e6 / max(seconds, 0.01):.0f} MB/s"


def measure(rounds: int, only: str) -> None:
    with tempfile.TemporaryDirectory(prefix="bench-http2-") as name, ExitStack() as undo:
        both, own = write_certificate(Path(name), "*.bench.example")
        process = undo.enter_context(subprocess.Popen([sys.executable, "-I", "-c", SERVER, both], stdout=-1))
        undo.callback(process.kill)
        assert process.stdout is not None
        server, inspector = int(process.stdout.readline()), InspectorProcess(ignore)
        undo.callback(inspector.retire)
        door = Http2Door(inspector, server, own)
        undo.callback(door.close)
        trusted = inspector.trust(door.net)
        print(f"{'':44}{'direct':>10}{'looked into':>13}{'ratio':>7}  {'bar':9}of its processor time")
        for row, (told, bar) in ROWS.items():
            if only in told:
                direct, looked, spent = [], [], []
                for _ in range(rounds):
                    direct.append(client(row, server, own))
                    before = processor_seconds(inspector)
                    looked.append(client(row, door.port, trusted))
                    spent.append(processor_seconds(inspector) - before)
                one, other, seconds = map(statistics.median, (direct, looked, spent))
                print(f"{told:44}{one:10.0f}{other:13.0f}{other / one:7.2f}  {bar:9}{per(row, seconds)}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.http2", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=5, help="of each row (5)")
    parser.add_argument("--only", default="", help="rows whose name holds this")
    given = parser.parse_args()
    with suppress(KeyboardInterrupt):
        measure(given.rounds, given.only)


if __name__ == "__main__":
    main()
