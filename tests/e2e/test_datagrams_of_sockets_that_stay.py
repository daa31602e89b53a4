"""UDP to a listed address by sockets that cannot be exchanged for one of the host's: bound, watched, duplicated,
or set to tell of themselves by a signal before the first datagram. The gatekeeper carries what they send; the server
sees who came, and what did not come shows as silence."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import threading
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from _support.cage import cage_python, cage_script
from _support.outside import LISTED, OTHER, outside
from pysandbox import Cage, Policy
from pysandbox.gate.udp import forwarders as outbound

PYTHON = "/usr/bin/python3"
PRELUDE = """
import os, select, socket, struct, sys
host, port = sys.argv[1], int(sys.argv[2])
def made(family=socket.AF_INET):
    s = socket.socket(family, socket.SOCK_DGRAM); s.settimeout(5); return s
def network(s): return s.getsockopt(socket.SOL_SOCKET, 71, 8)  # SO_NETNS_COOKIE
def heard(s, said):
    back, who = s.recvfrom(999)
    assert back == said and who[:2] in ((host, port), ("::ffff:" + host, port)), (back, who)
    print("hello" if network(s) == network(made()) else "it has left the cage's network")
"""
CLIENTS = {
    "bound": "s = made(); s.bind(('', 0)); s.sendto(b'x', (host, port)); heard(s, b'x')",
    "bound, connected": "s = made(); s.bind(('', 0)); s.connect((host, port)); s.send(b'x'); heard(s, b'x')",
    "again": "s = made(); s.bind(('', 0))\nfor i in range(3): s.sendto(b'%d' % i, (host, port)); heard(s, b'%d' % i)",
    "message": "s = made(); s.bind(('', 0)); s.sendmsg([b'x', b'y'], [], 0, (host, port)); heard(s, b'xy')",
    "watched": "s = made(); e = select.epoll(); e.register(s, 1); s.sendto(b'x', (host, port));"
    "assert e.poll(5) == [(s.fileno(), 1)]; heard(s, b'x')",
    "told by a signal": "import fcntl, signal; s = made(); fcntl.fcntl(s, fcntl.F_SETOWN, os.getpid());"
    "signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGIO]);"
    "fcntl.fcntl(s, fcntl.F_SETFL, fcntl.fcntl(s, fcntl.F_GETFL) | os.O_ASYNC); s.sendto(b'x', (host, port));"
    "assert signal.sigtimedwait([signal.SIGIO], 5) and fcntl.fcntl(s, fcntl.F_GETFL) & os.O_ASYNC; heard(s, b'x')",
    "duplicated": "s = made(); d = s.dup(); s.sendto(b'x', (host, port)); d.settimeout(5); heard(d, b'x')",
    "without waiting": "s = made(); s.bind(('', 0)); s.setblocking(False); s.sendto(b'x', (host, port));"
    "select.select([s], [], [], 5); heard(s, b'x')",
    "mapped": "s = made(socket.AF_INET6); s.bind(('', 0)); s.sendto(b'x', ('::ffff:' + host, port)); heard(s, b'x')",
    "large": "s = made(); s.bind(('', 0)); x = bytes(60000); s.sendto(x, (host, port)); assert s.recv(65000) == x;"
    "print('hello')",
    "asyncio": """
import asyncio
class P(asyncio.DatagramProtocol):
    def __init__(self): self.said = asyncio.get_running_loop().create_future()
    def datagram_received(self, data, who): self.said.set_result((data, who))
async def main():
    t, p = await asyncio.get_running_loop().create_datagram_endpoint(P, local_addr=("0.0.0.0", 0))
    t.sendto(b"x", (host, port)); assert await p.said == (b"x", (host, port)); print("hello")
asyncio.run(main())
""",
}
NODE = """
const s = require("dgram").createSocket("udp4"), [host, port] = process.argv.slice(1); let left = 3;
s.on("message", (m, r) => { if (!--left) { console.log(r.address == host ? "hello" : r.address); s.close(); } });
s.on("error", (e) => { console.log("" + e); process.exit(1); });
for (let i = 0; i < 3; i++) s.send("hello", +port, host);
"""
JAVA = """
import java.net.*;
public class Datagram {
    public static void main(String[] a) throws Exception {
        try (DatagramSocket s = new DatagramSocket()) {
            s.setSoTimeout(5000);
            byte[] said = "hello".getBytes();
            s.send(new DatagramPacket(said, said.length, InetAddress.getByName(a[0]), Integer.parseInt(a[1])));
            DatagramPacket back = new DatagramPacket(new byte[99], 99);
            s.receive(back);
            System.out.println(new String(back.getData(), 0, back.getLength()));
        }
    }
}
"""


class Echo:
    """A UDP server of the host's that says everything back, and remembers who came with what."""

    def __init__(self, stack: ExitStack, address: str = LISTED, port: int = 0) -> None:
        self.sock = stack.enter_context(socket.socket(type=socket.SOCK_DGRAM))
        self.sock.bind((address, port))
        self.port = int(self.sock.getsockname()[1])
        self.heard: list[tuple[bytes, Any]] = []
        threading.Thread(target=self._answer, daemon=True).start()

    def _answer(self) -> None:
        while True:
            said, who = self.sock.recvfrom(65535)
            self.heard.append((said, who))
            self.sock.sendto(said, who)


def ask(clients: dict[str, list[str]], allow: list[str]) -> dict[str, Any]:
    with ExitStack() as stack:
        port = str(Echo(stack).port)
        policy = Policy(allow_ips=(f"{LISTED}/udp",), allow=tuple(allow), memory_mb=None, max_pids=None)
        cage = stack.enter_context(Cage(policy))
        said = {}
        for name, argv in clients.items():
            done = cage.run([*argv, LISTED, port], timeout=60)
            said[name] = [done.exit_code, str(done.stdout), str(done.stderr)[-1500:]]
        return said


def worked(said: dict[str, Any]) -> None:
    assert {name: each for name, each in said.items() if each[0] != 0 or set(each[1].split()) != {"hello"}} == {}


def test_python() -> None:
    clients = {name: [PYTHON, "-I", "-S", "-c", PRELUDE + body] for name, body in CLIENTS.items()}
    worked(outside(ask, clients, []))


@pytest.mark.skipif(not shutil.which("node"), reason="node is not installed")
def test_node() -> None:
    worked(outside(ask, {"dgram": ["node", "--disable-wasm-trap-handler", "-e", NODE]}, []))


@pytest.mark.skipif(not shutil.which("javac"), reason="java is not installed")
def test_java(tmp_path: Path) -> None:
    (tmp_path / "Datagram.java").write_text(JAVA)
    subprocess.run(["javac", "Datagram.java"], cwd=tmp_path, check=True)
    argv = ["java", "-Xmx64m", "-XX:+UseSerialGC", "-cp", str(tmp_path), "Datagram"]
    worked(outside(ask, {"java": argv}, [str(tmp_path)]))


SEND = """
import socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.settimeout(20); s.bind(("", 0))
said = []
for place in sys.argv[1:]:
    host, port = place.split(":")
    said.append(attempt(s.sendto, place.encode(), (host, int(port))))
    try: said.append(s.recv(99).decode())
    except OSError as error: said.append("nothing")
    s.settimeout(1)
report(said)
"""


def only_what_is_listed() -> list[Any]:
    with ExitStack() as stack:
        listed = Echo(stack)
        other, beside = Echo(stack, OTHER, listed.port), Echo(stack)
        places = [f"{LISTED}:{listed.port}", f"{OTHER}:{listed.port}", f"{LISTED}:{beside.port}"]
        cage = stack.enter_context(Cage(Policy(allow_ips=(f"{places[0]}/udp",))))
        said = cage_python(cage, SEND, *places)
        return [said, places[0], [len(each.heard) for each in (listed, other, beside)]]


def test_what_is_not_listed_is_reached_by_neither() -> None:
    said, listed, arrived = outside(only_what_is_listed)
    assert said == ["ok", listed, "ok", "nothing", "ok", "nothing"]  # in the cage's own network, where nobody is
    assert arrived == [1, 0, 0]


STEP_BY_STEP = """
import socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.settimeout(5); s.bind(("", 0))
s.connect((sys.argv[1], int(sys.argv[2])))
s.send(b"before"); assert s.recv(9) == b"before"
print("connected", flush=True); sys.stdin.readline()
s.settimeout(1)
said = [attempt(s.send, b"after"), attempt(s.recv, 9), attempt(s.send, b"after")]
said.append(attempt(socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto, b"x", (sys.argv[1], int(sys.argv[2]))))
report(said)
"""


def taken_away() -> list[Any]:
    from _support.cage import script

    with ExitStack() as stack:
        echo = Echo(stack)
        cage = stack.enter_context(Cage(Policy(allow_ips=(f"{LISTED}/udp", f"{OTHER}/udp"))))
        process = cage.spawn(script(STEP_BY_STEP, LISTED, str(echo.port)), stdin=-1, stdout=-1)
        assert process.stdout is not None and process.stdin is not None
        assert process.stdout.readline().strip() == b"connected"
        cage.restrict_network([OTHER])
        process.stdin.write(b"\n")
        process.stdin.close()
        said = process.stdout.read().decode()
        process.wait(10)
        return [said, [each.decode() for each, _ in echo.heard]]


def test_what_is_taken_away_is_cut() -> None:
    said, heard = outside(taken_away)
    assert heard == ["before"]
    assert '"EPERM"' in said and said.count('"ok"') <= 1  # one send, whose answer is a refusal


FLOOD = """
import socket
sockets = []
for port in range(int(sys.argv[2]), int(sys.argv[2]) + int(sys.argv[3])):
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.bind(("", 0)); sockets.append(s)
    s.sendto(b"x", (sys.argv[1], port))
report(len(sockets))
"""
MANY_PEERS = """
import socket
to = (sys.argv[1], int(sys.argv[2]))
for i in range(int(sys.argv[3])):
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.settimeout(5); s.bind(("", 0))
    s.sendto(b"%d" % i, to); assert s.recv(9) == b"%d" % i
report("done")
"""


def flooded() -> list[Any]:
    with ExitStack() as stack:
        echo = Echo(stack)
        cage = stack.enter_context(Cage(Policy(allow_ips=(f"{LISTED}/udp",))))
        cage.run(["true"])
        before = len(os.listdir("/proc/self/fd"))
        ports = cage_python(cage, FLOOD, LISTED, "20000", "200")
        callers = cage_python(cage, MANY_PEERS, LISTED, str(echo.port), str(outbound.PEERS + 100), timeout=100)
        held = len(os.listdir("/proc/self/fd")) - before
        cage.close()
        return [ports, callers, held]


def test_a_flood_costs_a_bounded_number_of_sockets() -> None:
    ports, callers, held = outside(flooded)
    assert (ports, callers) == (200, "done")
    assert 0 < held <= outbound.LISTENERS + outbound.PEERS + 16


def taken_port() -> list[Any]:
    """The cage has the port itself, at every address."""
    body = """
import socket
own = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); own.bind(("", int(sys.argv[2])))
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.bind(("", 0))
report(attempt(s.sendto, b"x", (sys.argv[1], int(sys.argv[2]))))
"""
    with ExitStack() as stack:
        echo = Echo(stack)
        done = cage_script(Policy(allow_ips=(f"{LISTED}/udp",)), body, LISTED, str(echo.port))
        return [str(done.stdout).strip(), len(echo.heard)]


def test_a_port_that_the_cage_has_itself_is_an_error() -> None:
    assert outside(taken_port) == ['"EADDRINUSE"', 0]
