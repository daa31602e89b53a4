"""How long one cage holds up another at the doors they share: python -m bench.fairness [--seconds N] [--only WORD]

A neighbour makes small requests at each door, one after another, while a hostile cage of the same program does one
thing without pause. Beside each door the neighbour asks itself over its own loopback, where no gatekeeper is: what the
machine does to both (attackers use its processors, too) is in that row, and only what exceeds it is the gatekeeper's.
Calm and attacked rounds alternate; the hostile cage is paused in the calm ones.
"""

from __future__ import annotations

import argparse
import json
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from subprocess import PIPE
from typing import Any

from bench.report import percentiles
from pysandbox import Cage, Policy

BAR = 100.0  # ms that the slowest neighbour may cost
PYTHON = ["/usr/bin/python3", "-I", "-S", "-c"]
HEAD = """
import json, os, socket, struct, sys, time
DOOR, ALIAS = "198.18.0.1", b"host.pysandbox.internal"
PORT, OWN = int(sys.argv[1]), sys.argv[2]  # an address of the host that is listed, or ""
def dial(host, port, timeout=20):
    return socket.create_connection((host, port), timeout)
def question(name):
    labels = b"".join(bytes([len(each)]) + each for each in name.split(b"."))
    return struct.pack("!6H", 7, 0x100, 1, 0, 0, 0) + labels + b"\\0" + struct.pack("!2H", 1, 1)
def socks():
    s = dial(DOOR, 1080)
    s.sendall(b"\\5\\1\\0\\5\\1\\0\\3" + bytes([len(ALIAS)]) + ALIAS + PORT.to_bytes(2, "big"))
    return s
def fork(work, *given):
    if os.fork() == 0:
        while True:
            try: work(*given)
            except OSError: pass
"""
NEIGHBOUR = """
def dns():
    with socket.socket(type=socket.SOCK_DGRAM) as s:
        s.settimeout(20); s.connect((DOOR, 53)); s.send(question(b"refused.example")); assert s.recv(512)[3] & 15 == 3
def dns_tcp():
    with dial(DOOR, 53) as s:
        asked = question(b"refused.example"); s.sendall(len(asked).to_bytes(2, "big") + asked); assert s.recv(512)
def through_socks():
    with socks() as s:
        s.sendall(b"ping")
        heard = b""
        while not heard.endswith(b"ping"): heard += s.recv(99) or b"ping"
        assert heard[-4:] == b"ping" and len(heard) > 12
def http():
    with dial(DOOR, 3128) as s:
        at = b"%s:%d" % (ALIAS, PORT)
        s.sendall(b"GET http://" + at + b"/ HTTP/1.1\\r\\nHost: " + at + b"\\r\\n\\r\\n"); assert b"200" in s.recv(999)
def tcp():
    with dial(ALIAS.decode(), PORT) as s:
        s.sendall(b"ping\\n"); assert s.recv(99)
def refused():
    with socket.socket() as s: assert s.connect_ex(("203.0.113.9", 443)) == 111
kept = socks(); kept.sendall(b"ping"); time.sleep(.2); kept.recv(999)
def relayed():
    kept.sendall(b"ping"); assert kept.recv(99) == b"ping"
def direct():
    with dial(OWN, PORT) as s:
        s.sendall(b"ping!"); assert s.recv(99)
own, mine = socket.socketpair()
if os.fork() == 0:
    while True: mine.send(mine.recv(9))
def alone():
    own.send(b"x"); own.recv(9)
    with socket.socket() as s: s.bind(("127.0.0.1", 0))
DOORS = {"no door (the machine)": alone, "DNS, UDP": dns, "DNS, TCP": dns_tcp, "SOCKS": through_socks, "HTTP": http,
         "any TCP": tcp, "refused connect": refused, "a relayed stream": relayed}
if OWN: DOORS["a direct grant"] = direct
print("ready", flush=True)
for line in sys.stdin:
    until, taken = time.monotonic() + float(line), {name: [] for name in DOORS}
    while time.monotonic() < until:
        for name, ask in DOORS.items():
            began = time.monotonic(); ask(); taken[name].append(1e3 * (time.monotonic() - began))
    print(json.dumps(taken), flush=True)
"""
ATTACKS = {
    "nothing": "",
    "DNS over UDP, two floods": """
def flood(s=None):
    s = socket.socket(type=socket.SOCK_DGRAM); s.connect((DOOR, 53)); q = question(b"refused.example")
    while True: s.send(q)
for _ in range(2): fork(flood)
""",
    "DNS over TCP, never dry": """
def feed(s):
    q = question(b"refused.example"); q = (len(q).to_bytes(2, "big") + q) * 200
    while True: s.sendall(q)
def eat(s):
    while s.recv(1 << 16): pass
for _ in range(4):
    s = dial(DOOR, 53, None); fork(feed, s); fork(eat, s)
""",
    "one relayed stream, never dry": """
s = socks(); s.recv(99)
def push():
    while True: s.sendall(b"\\0" * 65536)
fork(push)
""",
    "100 relayed streams, never dry": """
kept = [socks() for _ in range(100)]
def push():
    while True:
        for s in kept:
            try: s.send(b"\\0" * 65536, socket.MSG_DONTWAIT)
            except BlockingIOError: pass
for _ in range(2): fork(push)
""",
    "100 relayed streams, nobody reads": """
kept = [socks() for _ in range(100)]
for s in kept: s.sendall(b"echo for ever"); s.setblocking(False)
def push():
    while True:
        for s in kept:
            try: s.send(b"x" * 65536)
            except BlockingIOError: pass
fork(push)
""",
    "200 connections half open": """
kept = [dial(DOOR, port) for port in (1080, 3128) for _ in range(100)]
for s in kept: s.sendall(b"\\5")
""",
    "200 heads that never end": """
kept = []
for _ in range(200):
    s = dial(DOOR, 3128); s.sendall(b"GET http://x/ HTTP/1.1\\r\\n"); kept.append(s)
def drip():
    while True:
        for s in list(kept):
            try: s.send(b"X: 1\\r\\n")
            except OSError:
                kept.remove(s); s = dial(DOOR, 3128); s.sendall(b"GET http://x/ HTTP/1.1\\r\\n"); kept.append(s)
fork(drip)
""",
    "connections reset without end": """
def knock(port):
    while True:
        s = socket.socket(); s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        s.connect((DOOR, port)); s.send(b"\\5"); s.close()
for port in (1080, 3128, 1080, 3128): fork(knock, port)
""",
    "relayed streams reset without end": """
def knock():
    while True:
        s = socks(); s.recv(99); s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0)); s.close()
for _ in range(8): fork(knock)
""",
    "refused connects without end": """
def knock():
    n = 0
    while True:
        n += 1
        with socket.socket() as s: s.connect_ex(("203.0.113.%d" % (n % 250), 1 + n % 60000))
for _ in range(2): fork(knock)
""",
    "chunks of a byte": """
def chunks():
    s = dial(DOOR, 3128, None)
    at = b"%s:%d" % (ALIAS, PORT)
    s.sendall(b"POST http://%s/ HTTP/1.1\\r\\nHost: %s\\r\\nTransfer-Encoding: chunked\\r\\n\\r\\n" % (at, at))
    while True: s.sendall(b"1\\r\\nx\\r\\n" * 10000)
for _ in range(2): fork(chunks)
""",
}  # fmt: skip
GO = """
print("ready", flush=True)
time.sleep(3600)
"""


# A process of its own: the host's interpreter is the gatekeeper's here.
SERVER = """
import socket, threading
def answer(one):
    with one:
        try:
            while said := one.recv(1 << 20):
                if said.startswith(b"GET"): one.sendall(b"HTTP/1.1 200 OK\\r\\nContent-Length: 2\\r\\n\\r\\nok")
                elif len(said) < 64: one.sendall(said)
        except OSError: pass
def accept(listener):
    while True: threading.Thread(target=answer, args=(listener.accept()[0],), daemon=True).start()
listener = socket.create_server(("", 0), backlog=1024)
print(listener.getsockname()[1], flush=True)
accept(listener)
"""


@contextmanager
def server() -> Iterator[int]:
    """A port of the host, where small words are said back and large ones swallowed."""
    with subprocess.Popen([*PYTHON, SERVER], stdout=PIPE) as process:
        assert process.stdout is not None
        yield int(process.stdout.readline())
        process.kill()


def own_address() -> str:
    """One that other machines know; "" where there is none."""
    with socket.socket(type=socket.SOCK_DGRAM) as one:
        try:
            one.connect(("192.0.2.1", 9))  # sends nothing
        except OSError:
            return ""
        return "" if (found := str(one.getsockname()[0])).startswith("127.") else found


class Neighbour:
    def __init__(self, cage: Cage, port: int, own: str) -> None:
        self._process = cage.spawn([*PYTHON, HEAD + NEIGHBOUR, str(port), own], stdin=PIPE, stdout=PIPE, cwd="/tmp")
        assert self._process.stdout is not None and self._process.stdout.readline() == b"ready\n"

    def ask(self, seconds: float) -> dict[str, list[float]]:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(b"%f\n" % seconds)
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        assert line, "the neighbour was refused: its cage has ended, or a door did not answer within 20 s"
        return dict(json.loads(line))

    def end(self) -> None:
        self._process.kill()
        self._process.wait()


def measure(neighbour: Neighbour, attack: str, rules: Policy, port: int, seconds: float, rounds: int) -> dict[str, Any]:
    """{door: (calm, attacked)}, in ms."""
    calm: dict[str, list[float]] = {}
    attacked: dict[str, list[float]] = {}
    with Cage(rules) as hostile:
        process = hostile.spawn([*PYTHON, HEAD + ATTACKS[attack] + GO, str(port), ""], stdout=PIPE, cwd="/tmp")
        assert process.stdout is not None and process.stdout.readline() == b"ready\n"
        for _ in range(rounds):
            _add(attacked, neighbour.ask(seconds / rounds))
            hostile.pause()
            neighbour.ask(0.2)  # what is still in queues
            _add(calm, neighbour.ask(seconds / rounds))
            hostile.resume()
        process.kill()
    return {door: (calm[door], attacked[door]) for door in attacked}


def _add(kept: dict[str, list[float]], more: dict[str, list[float]]) -> None:
    for door, taken in more.items():
        kept.setdefault(door, []).extend(taken)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.fairness", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=6.0, help="of each attack (6)")
    parser.add_argument("--only", default="", help="attacks whose name holds this")
    given = parser.parse_args()
    own = own_address()
    print(f"{'':58} {'calm: p50':>8} {'p99':>8} {'worst':>8}   {'p50':>8} {'p99':>8} {'worst':>8} ms  n")
    with server() as small, server() as sink:
        listed = (f"{own}:{small}/tcp",) if own else ()
        rules = Policy(allow_host_loopback=True, open_files=4096, allow_ips=listed)
        compare(rules, (small, sink), own, given.seconds, given.only)
    return 0


def compare(rules: Policy, ports: tuple[int, int], own: str, seconds: float, only: str) -> None:
    small, sink = ports
    with Cage(rules) as other:
        neighbour = Neighbour(other, small, own)
        for attack in ATTACKS:
            if only in attack:
                for door, (calm, attacked) in measure(neighbour, attack, rules, sink, seconds, 3).items():
                    over = " over 100" if max(attacked) > BAR else ""
                    told = f"{percentiles(calm)}   {percentiles(attacked)} {len(attacked):6}{over}"
                    print(f"{attack:36} {door:21} {told}", flush=True)
        neighbour.end()


if __name__ == "__main__":
    sys.exit(main())
