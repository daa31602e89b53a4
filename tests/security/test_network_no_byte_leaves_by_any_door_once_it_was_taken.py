"""Claim: nothing that a cage says after `restrict_network([])` has returned arrives anywhere, by any door and in any
state that a connection may be in: kept, upgraded, half closed, inside TLS, or made anew.

Each way says the time without pause, by a clock that the host has too; the evidence is what the server was told.
"""

from __future__ import annotations

import re
import socket
import threading
import time
from collections import Counter
from collections.abc import Iterator

import pytest

from pysandbox import PIPE, Cage

from .harness import PATIENCE, first_line, policy, program, wait_until

TALK = """
import socket, ssl, struct, sys, threading, time
DOOR, ALIAS = "198.18.0.1", b"host.pysandbox.internal"
AT = b"%s:%d" % (ALIAS, PORT)
def dial(host, port):
    return socket.create_connection((host, port), 20)
def socks():
    s = dial(DOOR, 1080); s.sendall(b"\\5\\1\\0"); s.recv(2)
    s.sendall(b"\\5\\1\\0\\3" + bytes([len(ALIAS)]) + ALIAS + PORT.to_bytes(2, "big"))
    if s.recv(10)[1]: raise OSError("refused")
    return s
def asked(request, wanted):
    s = dial(DOOR, 3128); s.sendall(request)
    head = b""
    while b"\\r\\n\\r\\n" not in head:
        more = s.recv(999)
        if not more: raise OSError("closed")
        head += more
    if wanted not in head.split()[1:2]: raise OSError("refused")
    return s
def connect():
    return asked(b"CONNECT " + AT + b" HTTP/1.1\\r\\nHost: " + AT + b"\\r\\n\\r\\n", b"200")
def tcp():
    return dial(ALIAS.decode(), PORT)
def upgraded():
    return asked(b"GET http://" + AT + b"/up HTTP/1.1\\r\\nHost: " + AT
                 + b"\\r\\nConnection: Upgrade\\r\\nUpgrade: websocket\\r\\n\\r\\n", b"101")
def body():
    s = dial(DOOR, 3128)
    s.sendall(b"POST http://" + AT + b"/ HTTP/1.1\\r\\nHost: " + AT + b"\\r\\nTransfer-Encoding: chunked\\r\\n\\r\\n")
    return s
def half_closed():
    s = socks(); s.sendall(b"shut down\\n")
    while s.recv(99): pass
    return s
def tls():
    s, come, go = tcp(), ssl.MemoryBIO(), ssl.MemoryBIO()
    context = ssl.create_default_context(); context.check_hostname = False
    try: context.wrap_bio(come, go, server_hostname=ALIAS.decode()).do_handshake()
    except ssl.SSLWantReadError: s.sendall(go.read())
    return s
WAYS = {"socks": socks, "connect": connect, "tcp": tcp, "upgraded": upgraded, "body": body, "half": half_closed,
        "tls": tls}
def say(way, s):
    line = b"%s:%d\\n" % (way.encode(), time.monotonic_ns())
    s.sendall(line if way != "body" else b"%x\\r\\n%s\\r\\n" % (len(line), line))
def talk(way, make):
    while not over:
        try:
            with make() as s:
                while not over: say(way, s)
        except OSError: pass
"""
ATTACK = """
over = []
threads = [threading.Thread(target=talk, args=each) for each in WAYS.items()]
for each in threads: each.start()
print("ready", flush=True)
sys.stdin.readline()  # it was taken; every way goes on, and begins anew
until = time.monotonic() + 0.5
while time.monotonic() < until: time.sleep(0.01)
over.append(True)
for each in threads: each.join()
print("done", flush=True)
"""
WAYS = ("socks", "connect", "tcp", "upgraded", "body", "half", "tls")
SAID = re.compile(rb"(\w+):(\d+)\n")


class Server:
    """One of the host's, on loopback: keeps the latest time that each way has said, and how often it has said one."""

    def __init__(self) -> None:
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.port = int(self.listener.getsockname()[1])
        self.latest: dict[str, int] = {}
        self.times: Counter[str] = Counter()
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    def _accept(self) -> None:
        while True:
            try:
                one = self.listener.accept()[0]
            except OSError:
                return
            self._threads.append(threading.Thread(target=self._hear, args=(one,)))
            self._threads[-1].start()

    def _hear(self, one: socket.socket) -> None:
        rest = b""
        with one:
            try:
                while more := one.recv(1 << 16):
                    if b"GET /up" in more:
                        one.sendall(b"HTTP/1.1 101 Up\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n")
                    if more.startswith(b"\x16\3"):
                        one.sendall(b"\x15\3\3\0\2\1\0")  # what follows a hello waits for an answer: here a warning
                    if b"shut down\n" in more:
                        one.shutdown(socket.SHUT_WR)
                    said = rest + more
                    for way, when in SAID.findall(said):
                        self.latest[way.decode()] = max(self.latest.get(way.decode(), 0), int(when))
                        self.times[way.decode()] += 1
                    rest = said[said.rfind(b"\n") + 1 :]
            except OSError:
                return

    def close(self) -> None:
        """When everything that was sent has been heard: the connections have been cut."""
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        for each in self._threads:
            each.join(PATIENCE)


@pytest.fixture
def server() -> Iterator[Server]:
    made = Server()
    yield made
    if made.listener.fileno() >= 0:
        made.close()


def test_what_is_said_afterwards_arrives_nowhere(server: Server) -> None:
    rules = policy(egress="proxy-only", allow_host_loopback=True)
    with Cage(rules) as cage:
        attack = program(TALK, ATTACK, PORT=server.port)
        with cage.spawn(attack, stdin=PIPE, stdout=PIPE, cwd="/tmp") as talking:
            assert first_line(talking) == b"ready\n"
            control = wait_until(lambda: all(server.times[way] > 100 for way in WAYS), PATIENCE)
            assert control, f"not every way was heard: {dict(server.times)}"

            cage.restrict_network([])
            returned = time.monotonic_ns()

            assert talking.stdin is not None
            talking.stdin.write(b"go on\n")
            talking.stdin.flush()
            assert first_line(talking, PATIENCE) == b"done\n"
    server.close()
    assert {way: when - returned for way, when in server.latest.items() if when > returned} == {}
