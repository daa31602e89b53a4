"""Claim: whatever a cage does at its doors without pause, another cage has its answers meanwhile, and who takes the
network away is not held up and is told the truth: nothing leaves any more.

The servers are the host's own, on loopback; the doors are those of a cage with one host and one address. What is
attacked is the one loop that serves the doors of all cages: a reader that never runs dry, a crowd of connections,
names that a slow name server leaves without an answer.
"""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from _support.nameserver import NameServer
from pysandbox import PIPE, Cage
from pysandbox.events import Event
from pysandbox.policy.host import HostRule
from pysandbox.runtime.runtime import Runtime

from .harness import first_line, policy, program

LISTED = "192.0.2.1"
CALM = 1.0  # seconds that nobody is held up for; it was ten and more
BAR = 0.1  # seconds that the slowest neighbour may cost; on a machine that is busy itself, TIMES what it takes alone
TIMES = 20
HEAD = """
import socket, struct, time
DOOR = "198.18.0.1"
ALIAS = "host.pysandbox.internal"
def dial(host, port, timeout=20):
    return socket.create_connection((host, port), timeout)
def feed(s, data):
    try:
        while True: s.sendall(data)
    except OSError: pass
def eat(s):
    try:
        while s.recv(1 << 16): pass
    except OSError: pass
def fork(work, *args):
    if os.fork() == 0:
        try: work(*args)
        finally: os._exit(0)
def question(name):
    labels = b"".join(bytes([len(each)]) + each for each in name.split(b"."))
    return struct.pack("!6H", 7, 0x100, 1, 0, 0, 0) + labels + b"\\0" + struct.pack("!2H", 1, 1)
def framed(name):
    asked = question(name)
    return len(asked).to_bytes(2, "big") + asked
"""
GO = """
print("ready", flush=True)
time.sleep(600)
"""
# Each keeps its door busy for as long as it lives.
ATTACKS = {
    "DNS over TCP": """
        for _ in range(4):
            s = dial(DOOR, 53)
            fork(feed, s, framed(b"refused.example") * 200); fork(eat, s)
    """,
    "DNS over UDP": """
        def ask():
            s = socket.socket(type=socket.SOCK_DGRAM); s.connect((DOOR, 53))
            while True:
                try: s.send(question(b"refused.example"))
                except OSError: pass
        for _ in range(2): fork(ask)
    """,
    "chunks of a byte": """
        for _ in range(2):
            s = dial(DOOR, 3128)
            s.sendall(b"POST http://%s:%d/ HTTP/1.1\\r\\nHost: %s:%d\\r\\nTransfer-Encoding: chunked\\r\\n\\r\\n"
                      % (ALIAS.encode(), PORT, ALIAS.encode(), PORT))
            fork(feed, s, b"1\\r\\nx\\r\\n" * 10000)
    """,
    "SOCKS, refused without end": """
        def ask():
            while True:
                try:
                    with dial(DOOR, 1080) as s:
                        s.sendall(b"\\5\\1\\0\\5\\1\\0\\3\\7refused\\0\\x50"); s.recv(100)
                except OSError: pass
        for _ in range(8): fork(ask)
    """,
    "CONNECT, refused without end": """
        def ask():
            while True:
                try:
                    with dial(DOOR, 3128) as s:
                        s.sendall(b"CONNECT refused.example:443 HTTP/1.1\\r\\nHost: refused.example\\r\\n\\r\\n")
                        s.recv(999)
                except OSError: pass
        for _ in range(8): fork(ask)
    """,
    "a crowd of relayed streams": """
        kept = []
        for _ in range(40):
            s = dial(DOOR, 1080)
            name = ALIAS.encode()
            s.sendall(b"\\5\\1\\0\\5\\1\\0\\3" + bytes([len(name)]) + name + PORT.to_bytes(2, "big"))
            kept.append(s)
        def push():
            while True:
                for s in kept:
                    try: s.send(b"\\0" * 65536, socket.MSG_DONTWAIT)
                    except OSError: pass
        for _ in range(2): fork(push)
    """,
    "datagrams to a listed address": """
        def ask():
            s = []
            for n in range(64):
                each = socket.socket(type=socket.SOCK_DGRAM); each.bind(("", 0)); s.append(each)
            while True:
                for each in s:
                    try: each.sendto(b"x", (ADDRESS, PORT))
                    except OSError: pass
        for _ in range(2): fork(ask)
    """,
}
WORK = """
    def once(n):
        began = time.monotonic()
        try: socket.getaddrinfo("refused-%d.example" % n, 80)
        except OSError: pass
        with dial(DOOR, 3128) as s:
            at = b"%s:%d" % (ALIAS.encode(), QUIET)
            s.sendall(b"GET http://" + at + b"/ HTTP/1.1\\r\\nHost: " + at + b"\\r\\n\\r\\n")
            assert b"200" in s.recv(999)
        return time.monotonic() - began
    print(sorted(map(once, range(5)))[2], flush=True)
"""


class Sink:
    """A server of the host: answers a request, swallows all else, and knows when it was last told something."""

    def __init__(self) -> None:
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=512)
        self.port = int(self.listener.getsockname()[1])
        self.open = 0
        self._threads: list[threading.Thread] = []
        self._start(self._accept)

    def _start(self, work: Callable[..., None], *arguments: object) -> None:
        self._threads.append(threading.Thread(target=work, args=arguments))
        self._threads[-1].start()

    def close(self) -> None:
        """When the cages have gone: each connection ends by itself."""
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        for each in self._threads:
            each.join()

    def _accept(self) -> None:
        while True:
            try:
                one = self.listener.accept()[0]
            except OSError:
                return
            self._start(self._serve, one)

    def _serve(self, one: socket.socket) -> None:
        self.open += 1
        try:
            with one:
                if one.recv(1 << 16).startswith(b"GET"):
                    one.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok")
                    return
                while one.recv(1 << 20):
                    time.sleep(0.001)  # the host's own interpreter is not what is attacked
        except OSError:
            return
        finally:
            self.open -= 1


@pytest.fixture
def sinks() -> Iterator[tuple[Sink, Sink]]:
    """The one that is attacked, and the other cage's."""
    made = Sink(), Sink()
    yield made
    for each in made:
        each.close()


@pytest.mark.slow
@pytest.mark.parametrize("attack", ATTACKS)
def test_another_cage_goes_on_and_the_wall_comes_down_at_once(attack: str, sinks: tuple[Sink, Sink]) -> None:
    sink, quiet = sinks
    names = {"PORT": sink.port, "QUIET": quiet.port, "ADDRESS": LISTED}
    rules = policy(egress="proxy-only", allow_host_loopback=True, allow_ips=[f"{LISTED}/udp"])
    with Cage(rules) as hostile, Cage(rules) as other:
        alone = held_up(other, names)
        assert alone < CALM  # the control: nobody attacks
        with hostile.spawn(program(HEAD, ATTACKS[attack], GO, **names), stdout=PIPE, cwd="/tmp") as attacking:
            assert first_line(attacking) == b"ready\n"
            time.sleep(0.5)

            beside = held_up(other, names)
            began = time.monotonic()
            hostile.restrict_network([])
            returned = time.monotonic() - began
            ended = time.monotonic() + CALM
            while sink.open and time.monotonic() < ended:
                time.sleep(0.01)

            assert beside < min(CALM, max(BAR, TIMES * alone))
            assert returned < CALM
            assert sink.open == 0  # what was connected is cut, and nobody has come since
            attacking.kill()


def held_up(cage: Cage, names: dict[str, object]) -> float:
    """The median of what a refused name and a request take the cage."""
    result = cage.run(program(HEAD, WORK, **names), timeout=60)
    assert result.ok, result.stderr
    return float(str(result.stdout))


# ---- a slow name server ---------------------------------------------------------------------------------------------

# Each makes names up, as fast as the door takes them, and waits for no answer.
ASKING = {
    "by UDP": """
        s = socket.socket(type=socket.SOCK_DGRAM); s.connect((DOOR, 53))
        for n in range(200): s.send(question(b"n%d.slow.test" % n)); time.sleep(0.001)
    """,
    "by TCP": """
        s = dial(DOOR, 53)
        s.sendall(b"".join(framed(b"n%d.slow.test" % n) for n in range(60)))
    """,
    "by CONNECT": """
        held = []
        for n in range(60):
            held.append(dial(DOOR, 3128))
            held[-1].sendall(b"CONNECT n%d.slow.test:443 HTTP/1.1\\r\\nHost: n%d.slow.test:443\\r\\n\\r\\n" % (n, n))
    """,
}  # fmt: skip


@pytest.mark.parametrize("way", ASKING)
def test_names_that_nobody_answers_leave_the_other_cages_their_doors(way: str, sinks: tuple[Sink, Sink]) -> None:
    """Their questions, and what the host tells the reader meanwhile, are numbered each for itself."""
    events: list[Event] = []
    names = {"PORT": sinks[0].port, "QUIET": sinks[1].port}
    with NameServer({}, silent=True) as server:
        runtime = Runtime(sink=events.append, nameservers=[server.place])
        asking = policy(egress="proxy-only", hosts=[HostRule(domain="*.slow.test")])
        rules = policy(egress="proxy-only", allow_host_loopback=True)
        with Cage(asking, runtime=runtime) as slow, Cage(rules, runtime=runtime) as other:
            alone = held_up(other, names)  # the control: nobody waits
            with slow.spawn(program(HEAD, ASKING[way], GO, **names), stdout=PIPE, cwd="/tmp") as waiting:
                assert first_line(waiting) == b"ready\n"
                beside = [held_up(other, names) for _ in range(8)]
                waiting.kill()
        assert len(server.asked) > 16  # they were on their way
        runtime.drain()

    assert sorted(beside)[4] < max(BAR, TIMES * alone)
    assert not [each for each in events if each.type == "gatekeeper.failed"]
