"""Real clients over granted addresses: each dials, talks and hears, in a cage with a network of its own. The server
sees who dialled, so that what came through anything but a socket of the host's would show."""

from __future__ import annotations

import shutil
import socket
import ssl
import subprocess
import threading
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from _support.outside import LISTED, SIX, outside
from pysandbox import Cage, Policy

PYTHON = "/usr/bin/python3"
REPLY = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello"

PLAIN = """
import os, select, socket, struct, sys
family, host, port = (socket.AF_INET6 if ":" in sys.argv[1] else socket.AF_INET), sys.argv[1], int(sys.argv[2])
def ask(s):
    s.sendall(b"GET / HTTP/1.1\\r\\n\\r\\n")
    said = b""
    while piece := s.recv(100): said += piece
    assert said.endswith(b"hello"), said
    print("hello")
"""
CLIENTS: dict[str, str] = {
    "blocking": PLAIN + "s = socket.socket(family); s.connect((host, port)); ask(s)",
    "with a timeout": PLAIN + "ask(socket.create_connection((host, port), timeout=5))",
    "select": PLAIN
    + """
s = socket.socket(family); s.setblocking(False)
assert s.connect_ex((host, port)) == 115
assert select.select([], [s], [], 5)[1] == [s] and s.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) == 0
assert s.connect_ex((host, port)) in (0, 106)
assert not os.get_blocking(s.fileno()); s.setblocking(True); ask(s)
""",
    "epoll": PLAIN
    + """
s = socket.socket(family); s.setblocking(False)
assert s.connect_ex((host, port)) == 115
e = select.epoll(); e.register(s, select.EPOLLOUT)
assert e.poll(5) == [(s.fileno(), select.EPOLLOUT)]
s.setblocking(True); ask(s)
""",
    "after a refusal": PLAIN
    + """
s = socket.socket(family)
assert s.connect_ex((host, 1)) == 111
s.connect((host, port)); ask(s)
""",
    "asyncio": PLAIN
    + """
import asyncio
async def main():
    reader, writer = await asyncio.open_connection(host, port)
    writer.write(b"GET / HTTP/1.1\\r\\n\\r\\n")
    assert (await reader.read()).endswith(b"hello")
    print("hello")
asyncio.run(main())
""",
    "many at once": PLAIN
    + """
import asyncio
async def one():
    reader, writer = await asyncio.open_connection(host, port)
    writer.write(b"GET / HTTP/1.1\\r\\n\\r\\n")
    assert (await reader.read()).endswith(b"hello")
    writer.close()
async def main():
    await asyncio.gather(*(one() for _ in range(100)))
    print("hello")
asyncio.run(main())
""",
    "threads": PLAIN
    + """
import threading
for t in [threading.Thread(target=lambda: ask(socket.create_connection((host, port)))) for _ in range(20)]: t.start()
""",
    "options": PLAIN
    + """
s = socket.socket(family)
wanted = {(1, 9): 1, (6, 1): 1, (6, 4): 77, (6, 5): 7, (6, 6): 3, (6, 18): 4000, (1, 12): 4, (1, 2): 1}
for (level, name), value in wanted.items(): s.setsockopt(level, name, value)
s.setsockopt(1, 8, 50000); s.setsockopt(1, 7, 60000)
s.setsockopt(1, 13, struct.pack("ii", 1, 3)); s.setsockopt(6, 13, b"reno"); s.setsockopt(1, 20, struct.pack("ll", 5, 0))
if family == socket.AF_INET: s.setsockopt(0, 1, 0x28); s.setsockopt(0, 2, 33)
else: s.setsockopt(41, 67, 0x28); s.setsockopt(41, 16, 33)
os.set_inheritable(s.fileno(), True)
def look(): return {**{key: s.getsockopt(*key) for key in wanted}, 8: s.getsockopt(1, 8), 7: s.getsockopt(1, 7),
    13: s.getsockopt(1, 13, 8), "c": s.getsockopt(6, 13, 16), 20: s.getsockopt(1, 20, 16), "fd": s.fileno(),
    "tos": s.getsockopt(*((0, 1) if family == socket.AF_INET else (41, 67))), "i": os.get_inheritable(s.fileno()),
    "ttl": s.getsockopt(*((0, 2) if family == socket.AF_INET else (41, 16))), "b": os.get_blocking(s.fileno())}
before = look(); s.connect((host, port)); assert look() == before, (before, look()); ask(s)
""",
    "inherited by a child": PLAIN
    + """
s = socket.socket(family); os.set_inheritable(s.fileno(), True); s.connect((host, port))
code = (
    "import socket, sys; s = socket.socket(fileno=int(sys.argv[1])); s.sendall(b'GET / HTTP/1.1\\\\r\\\\n\\\\r\\\\n');"
    "print(s.recv(200)[-5:].decode())"
)
os.execv(sys.executable, [sys.executable, "-c", code, str(s.fileno())])
""",
}
NODE = """
const net = require("net"); const [host, port] = process.argv.slice(1);
const to = {host, port: +port, family: host.includes(":") ? 6 : 4, noDelay: true, keepAlive: true};
const s = net.connect(to, () => s.write("GET / HTTP/1.1\\r\\n\\r\\n"));
let said = ""; s.on("data", (d) => said += d); s.on("error", (e) => { console.log("" + e); process.exit(1); });
s.on("close", () => console.log(said.slice(-5)));
"""
FETCH = """
const [host, port] = process.argv.slice(1);
const url = `http://${host.includes(":") ? "[" + host + "]" : host}:${port}/`;
fetch(url).then((r) => r.text()).then(console.log, (e) => { console.log(e); process.exit(1); });
"""
GO = """package main
import ("fmt"; "io"; "net"; "os"; "time")
func main() {
    c, err := net.DialTimeout("tcp", net.JoinHostPort(os.Args[1], os.Args[2]), 5*time.Second)
    if err != nil { fmt.Println(err); os.Exit(1) }
    c.SetDeadline(time.Now().Add(5 * time.Second))
    fmt.Fprintf(c, "GET / HTTP/1.1\\r\\n\\r\\n")
    said, err := io.ReadAll(c)
    if err != nil { fmt.Println(err); os.Exit(1) }
    fmt.Println(string(said[len(said)-5:]))
}
"""
JAVA = """
import java.net.*; import java.nio.*; import java.nio.channels.*;
public class Client {
    public static void main(String[] a) throws Exception {
        InetSocketAddress to = new InetSocketAddress(a[0], Integer.parseInt(a[1]));
        byte[] ask = "GET / HTTP/1.1\\r\\n\\r\\n".getBytes();
        String said;
        try (Socket s = new Socket()) {
            s.setKeepAlive(true); s.setTcpNoDelay(true); s.connect(to, 5000); s.setSoTimeout(5000);
            s.getOutputStream().write(ask); said = new String(s.getInputStream().readAllBytes());
        }
        if (!said.endsWith("hello")) throw new Exception(said);
        SocketChannel c = SocketChannel.open(); c.configureBlocking(false);
        Selector sel = Selector.open(); c.register(sel, SelectionKey.OP_CONNECT);
        c.connect(to);
        if (sel.select(5000) != 1) throw new Exception("never connected");
        if (!c.finishConnect()) throw new Exception("not finished");
        c.write(ByteBuffer.wrap(ask));
        sel.selectedKeys().clear(); c.keyFor(sel).interestOps(SelectionKey.OP_READ);
        if (sel.select(5000) != 1) throw new Exception("nothing to read");
        ByteBuffer b = ByteBuffer.allocate(200); c.read(b);
        System.out.println(new String(b.array(), 0, b.position()).substring(b.position() - 5));
    }
}
"""


class Servers:
    """One that speaks HTTP on either family, and one behind TLS."""

    def __init__(self, stack: ExitStack, certificate: str) -> None:
        self.callers: set[str] = set()
        self.four = self._serve(stack, socket.create_server((LISTED, 0), backlog=256))
        self.six = self._serve(stack, socket.create_server((SIX, 0), family=socket.AF_INET6, backlog=256))
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
        tls = context.wrap_socket(socket.create_server((LISTED, 0)), server_side=True)
        self.tls = self._serve(stack, tls)

    def _serve(self, stack: ExitStack, server: socket.socket) -> int:
        stack.enter_context(server)
        threading.Thread(target=self._accept, args=(server,), daemon=True).start()
        return int(server.getsockname()[1])

    def _accept(self, server: socket.socket) -> None:
        while True:
            try:
                connection, caller = server.accept()
            except ssl.SSLError:
                continue
            self.callers.add(caller[0])
            threading.Thread(target=self._reply, args=(connection,), daemon=True).start()

    def _reply(self, connection: socket.socket) -> None:
        with connection:
            if connection.recv(1000):
                connection.sendall(REPLY)
                if isinstance(connection, ssl.SSLSocket):
                    connection = connection.unwrap()
                connection.shutdown(socket.SHUT_WR)


def dial(clients: dict[str, list[str]], allow: list[str], certificate: str) -> dict[str, list[Any]]:
    """Each client, over each family it may use: exit code, output, and errors."""
    said: dict[str, list[Any]] = {}
    with ExitStack() as stack:
        servers = Servers(stack, certificate)
        places = {"4": (LISTED, servers.four), "6": (SIX, servers.six), "m": (f"::ffff:{LISTED}", servers.four)}
        places["t"] = (LISTED, servers.tls)
        cage = stack.enter_context(
            Cage(Policy(allow_ips=(LISTED, SIX), allow=tuple(allow), memory_mb=None, max_pids=None))
        )
        for name, argv in clients.items():
            for kind in "t" if name.startswith("tls") else "4m6" if name in CLIENTS else "46":
                host, port = places[kind]
                shown = f"[{host}]" if kind == "6" else host
                full = [each.format(host=host, port=port, shown=shown) if "{" in each[:9] else each for each in argv]
                done = cage.run(full, timeout=60, input=b"GET / HTTP/1.1\r\n\r\n")
                said[f"{name} {kind}"] = [done.exit_code, str(done.stdout)[-2000:], str(done.stderr)[-2000:]]
    said["callers"] = sorted(servers.callers)
    return said


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("tls") / "both.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", f"/CN={LISTED}", "-days", "2", "-keyout",
         str(path), "-out", f"{path}.crt", "-addext", f"subjectAltName=IP:{LISTED}"],
        check=True, capture_output=True,
    )  # fmt: skip
    path.write_text(path.read_text() + Path(f"{path}.crt").read_text())
    return str(path)


def worked(said: dict[str, list[Any]]) -> None:
    callers = said.pop("callers")
    assert {name: each for name, each in said.items() if each[0] != 0 or "hello" not in each[1]} == {}
    assert set(callers) <= {LISTED, SIX}  # as one host dials itself


def test_python(certificate: str) -> None:
    clients = {name: [PYTHON, "-I", "-S", "-c", body, "{host}", "{port}"] for name, body in CLIENTS.items()}
    worked(outside(dial, clients, [], certificate))


def test_programs(certificate: str) -> None:
    clients = {
        "curl": ["curl", "-sS", "-m", "10", "{shown}:{port}/"],
        "tls openssl": ["openssl", "s_client", "-quiet", "-ign_eof", "-connect", "{host}:{port}"],
    }
    worked(outside(dial, {name: argv for name, argv in clients.items() if shutil.which(argv[0])}, [], certificate))


@pytest.mark.skipif(not shutil.which("node"), reason="node is not installed")
def test_node(certificate: str) -> None:
    clients = {
        name: ["node", "--disable-wasm-trap-handler", "-e", body, "{host}", "{port}"]
        for name, body in {"net": NODE, "fetch": FETCH}.items()
    }
    worked(outside(dial, clients, [], certificate))


@pytest.mark.skipif(not shutil.which("go"), reason="go is not installed")
def test_go(certificate: str, tmp_path: Path) -> None:
    (tmp_path / "client.go").write_text(GO)
    environment = {
        "PATH": "/usr/bin:/bin",
        "CGO_ENABLED": "0",
        "GOCACHE": str(tmp_path / "cache"),
        "HOME": str(tmp_path),
    }
    subprocess.run(["go", "build", "-o", "client", "client.go"], cwd=tmp_path, env=environment, check=True)
    worked(
        outside(dial, {"go": [str(tmp_path / "client"), "{host}", "{port}"]}, [str(tmp_path / "client")], certificate)
    )


@pytest.mark.skipif(not shutil.which("javac"), reason="java is not installed")
def test_java(certificate: str, tmp_path: Path) -> None:
    (tmp_path / "Client.java").write_text(JAVA)
    subprocess.run(["javac", "Client.java"], cwd=tmp_path, check=True)
    argv = ["java", "-Xmx64m", "-XX:+UseSerialGC", "-cp", str(tmp_path), "Client", "{host}", "{port}"]
    worked(outside(dial, {"java": argv}, [str(tmp_path)], certificate))


STAYS = (
    PLAIN
    + """
import fcntl, signal
COOKIE = 71  # SO_NETNS_COOKIE
def network(s): return s.getsockopt(socket.SOL_SOCKET, COOKIE, 8)
def stays(prepare):
    s = socket.socket(family); s.settimeout(5)
    kept, before = prepare(s), network(s)
    s.connect((host, port))
    s.sendall(f"GET / HTTP/1.1\\r\\nHost: {host}:{port}\\r\\nConnection: close\\r\\n\\r\\n".encode())
    said = b""
    while piece := s.recv(100): said += piece
    assert said.endswith(b"hello"), said
    return network(s) == before
def watched(s):
    e = select.epoll(); e.register(s, select.EPOLLIN); return e
def told_by_a_signal(s):
    signal.signal(signal.SIGIO, lambda *_: None); fcntl.fcntl(s, fcntl.F_SETOWN, os.getpid())
    fcntl.fcntl(s, fcntl.F_SETFL, fcntl.fcntl(s, fcntl.F_GETFL) | os.O_ASYNC)
def crowded(s):
    return [os.open("/dev/null", os.O_RDONLY) for _ in range(300)]
said = {"plain": stays(lambda s: None), "bound": stays(lambda s: s.bind(("", 0))),
        "duplicated": stays(lambda s: s.dup()), "in an epoll set": stays(watched),
        "told by a signal": stays(told_by_a_signal), "in a crowd": stays(crowded)}
print("hello" if said == {**dict.fromkeys(said, True), "plain": False} else said)
"""
)


def test_a_socket_that_something_else_knows_keeps_its_network(certificate: str) -> None:
    """There the connection is relayed by a door."""
    said = outside(dial, {"stays": [PYTHON, "-I", "-S", "-c", STAYS, "{host}", "{port}"]}, [], certificate)
    assert said["stays 4"][:2] == [0, "hello\n"], said
