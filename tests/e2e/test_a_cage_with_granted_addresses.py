"""A cage that is granted addresses is a cage like any other: its own loopback, unix sockets, netlink, a callback."""

from __future__ import annotations

import socket
import threading
from contextlib import ExitStack
from typing import Any

import pytest

from _support.cage import cage_python
from _support.outside import LISTED, OTHER, outside
from pysandbox import Cage, Policy, SandboxCompileError

OWN = """
import asyncio, multiprocessing.connection, socket, struct, tempfile, threading
said = {}
server = socket.create_server(("127.0.0.1", 0))
client = socket.create_connection(server.getsockname())
accepted = server.accept()[0]
client.sendall(b"tcp"); said["tcp"] = accepted.recv(3).decode()
six = socket.create_server(("::1", 0), family=socket.AF_INET6)
said["six"] = socket.create_connection(six.getsockname()[:2]).getpeername()[0]
u = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); u.bind(("127.0.0.1", 0))
v = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
v.sendto(b"udp", u.getsockname()); data, back = u.recvfrom(9); u.sendto(data, back); said["udp"] = v.recv(9).decode()
said["low port"] = attempt(socket.socket().bind, ("127.0.0.1", 80))
path = tempfile.mkdtemp() + "/u"
listener = socket.socket(socket.AF_UNIX); listener.bind(path); listener.listen()
dialled = socket.socket(socket.AF_UNIX); dialled.connect(path); other = listener.accept()[0]
said["uid"] = struct.unpack("3i", other.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[1] == os.getuid()
socket.send_fds(dialled, [b"fd"], [accepted.fileno()])
passed = socket.socket(fileno=socket.recv_fds(other, 9, 1)[1][0])
passed.sendall(b"passed"); said["passed"] = client.recv(9).decode()
d = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM); d.bind("\\0abstract")
socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM).sendto(b"abstract", "\\0abstract")
said["abstract"] = d.recv(9).decode()
with multiprocessing.connection.Listener() as l:
    t = threading.Thread(target=lambda: multiprocessing.connection.Client(l.address).send("pickled")); t.start()
    said["pickled"] = l.accept().recv(); t.join()
async def answer(reader, writer): writer.write(await reader.read(9)); await writer.drain(); writer.close()
async def main():
    s = await asyncio.start_unix_server(answer, path + "2")
    reader, writer = await asyncio.open_unix_connection(path + "2")
    writer.write(b"loop"); writer.write_eof(); said["asyncio"] = (await reader.read()).decode(); s.close()
asyncio.run(main())
said["interfaces"] = [name for _, name in socket.if_nameindex()]
said["localhost"] = socket.getaddrinfo("localhost", 80, socket.AF_INET, socket.SOCK_STREAM)[0][4][0]
report(said)
"""


def test_what_is_its_own_works_as_before() -> None:
    assert cage_python(Policy(allow_ips=(LISTED,)), OWN) == {
        "tcp": "tcp", "six": "::1", "udp": "udp", "low port": "EACCES", "uid": True, "passed": "passed",
        "abstract": "abstract", "pickled": "pickled", "asyncio": "loop", "interfaces": ["lo"], "localhost": "127.0.0.1",
    }  # fmt: skip


@pytest.mark.parametrize("address", ["127.0.0.1", "127.0.0.0/8:80", "[::1]:443", "198.18.0.1", "::ffff:127.0.0.1"])
def test_what_the_cage_has_for_itself_cannot_be_granted(address: str) -> None:
    with pytest.raises(SandboxCompileError) as error:
        Cage(Policy(allow_ips=(address,))).run(["true"])
    assert error.value.key == "network.allow_ips" and error.value.suggestion


def test_a_ring_would_go_past_the_grants() -> None:
    with pytest.raises(SandboxCompileError, match="io_uring_setup"):
        Cage(Policy(allow_ips=(LISTED,), allow_syscalls=("io_uring_setup",))).run(["true"])


DIAL = """
import socket
report([attempt(socket.create_connection, (host, int(sys.argv[3]))) for host in sys.argv[1:3]])
"""


def asked(narrowed: bool) -> list[Any]:
    heard: list[tuple[str, str]] = []

    def callback(event: Any, context: Any) -> int | None:
        heard.append((event.syscall, event.host))
        return 13 if event.host == OTHER else None

    with ExitStack() as stack:
        servers = [stack.enter_context(socket.create_server((LISTED, 0)))]
        port = servers[0].getsockname()[1]
        servers.append(stack.enter_context(socket.create_server((OTHER, port))))
        cage = stack.enter_context(Cage(Policy(allow_ips=(LISTED, OTHER)), policy_fn=callback, watch=["network"]))
        if narrowed:
            cage.context.restrict_network([OTHER])
        said = cage_python(cage, DIAL, LISTED, OTHER, str(port))
        return [said, heard, [[each.target, each.rule] for each in cage.denials]]


def test_a_callback_decides_first() -> None:
    said, heard, denials = outside(asked, False)
    assert said == ["ok", "EACCES"]
    assert heard == [["connect", LISTED], ["connect", OTHER]]
    assert [rule for _, rule in denials] == ["policy_fn"]
    said, heard, denials = outside(asked, True)
    assert said == ["EPERM", "EACCES"] and heard == [["connect", OTHER]]


def together() -> list[Any]:
    """Two cages, and threads of one of them, at the same time."""
    with ExitStack() as stack:
        server = stack.enter_context(socket.create_server((LISTED, 0), backlog=256))
        seen: list[str] = []

        def accept() -> None:
            while len(seen) < 80:
                with server.accept()[0] as connection:
                    seen.append(connection.recv(10).decode())

        hears = threading.Thread(target=accept, daemon=True)
        hears.start()
        body = """
import socket, threading
def one(): socket.create_connection((sys.argv[1], int(sys.argv[2]))).sendall(sys.argv[3].encode())
threads = [threading.Thread(target=one) for _ in range(40)]
for t in threads: t.start()
for t in threads: t.join()
report("done")
"""
        cages = [stack.enter_context(Cage(Policy(allow_ips=(LISTED,)))) for _ in range(2)]
        hosts = [
            threading.Thread(target=cage_python, args=(cage, body, LISTED, str(server.getsockname()[1]), name))
            for cage, name in zip(cages, "ab", strict=True)
        ]
        for each in hosts:
            each.start()
        for each in hosts:
            each.join()
        hears.join(30)
        return [seen.count("a"), seen.count("b")]


def test_many_at_once() -> None:
    assert outside(together) == [40, 40]
