"""A client of the SOCKS or the HTTP door whose target is known is served the same, however it says what it says: in
pieces, all at once, late, after its server, or not at all (`gate/tcp/offered.py` gives it back for most of these)."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import suppress

import pytest

from pysandbox import Cage, Policy
from pysandbox.policy.names import HOST_ALIAS

CLIENT = f"""
import json, socket, struct, sys, time
way, name = sys.argv[1], {HOST_ALIAS!r}
def asked(port):
    at = f"{{name}}:{{port}}"
    if way == "connect":
        return [f"CONNECT {{at}} HTTP/1.1\\r\\nHost: {{at}}\\r\\n\\r\\n".encode()]
    return [b"\\5\\1\\0", b"\\5\\1\\0\\3" + bytes([len(name)]) + name.encode() + struct.pack("!H", port)]
def door():
    s = socket.create_connection(("198.18.0.1", 1080 if way == "socks" else 3128), 20)
    s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return s
def answers(s):
    head = s.recv(2) if way == "socks" else b""
    end = s.recv(10) if way == "socks" else b""
    while way == "connect" and b"\\r\\n\\r\\n" not in end: end += s.recv(1)
    return head, end
def plain(port):
    s = door()
    for each in asked(port):
        s.sendall(each); (s.recv(2) if len(each) == 3 else None)
    s.recv(10) if way == "socks" else answers(s)
    return s
def rest(s):
    s.shutdown(socket.SHUT_WR)
    said = b""
    while part := s.recv(4096): said += part
    return said.decode()
def in_pieces(port):
    s = door()
    for byte in b"".join(asked(port)):
        s.sendall(bytes([byte])); time.sleep(.002)
    answers(s)
    for byte in b"12345\\n": s.sendall(bytes([byte])); time.sleep(.002)
    return rest(s)
def at_once(port):
    s = door(); s.sendall(b"".join(asked(port)) + b"12345\\n"); answers(s); return rest(s)
def late(port):
    s = door(); parts = asked(port)
    if way == "socks": s.sendall(parts.pop(0)); s.recv(2)
    time.sleep(2.5)
    s.sendall(parts[0])
    s.recv(10) if way == "socks" else answers(s)
    time.sleep(1.5)
    s.sendall(b"12345\\n"); return rest(s)
def as_is(port):
    s = plain(port); s.sendall(b"12345\\n"); return rest(s)
def silent(port):
    return rest(plain(port))
echo, greeting = int(sys.argv[2]), int(sys.argv[3])
for port in (echo, greeting): as_is(port)  # they are known from here on
found = {{each.__name__: [each(echo), each(greeting)] for each in (as_is, in_pieces, at_once, late, silent)}}
s = plain(greeting)
found["greeted"] = [s.recv(4).decode()]; s.sendall(b"12345\\n"); found["greeted"].append(rest(s))
print(json.dumps(found))
"""


def serve(listener: socket.socket, first: bytes) -> None:
    with suppress(OSError):
        while True:
            threading.Thread(target=echo, args=(listener.accept()[0], first), daemon=True).start()


def echo(there: socket.socket, first: bytes) -> None:
    with there, suppress(OSError):
        there.sendall(first)
        while said := there.recv(4096):
            there.sendall(said)


@pytest.fixture
def ports() -> Iterator[list[int]]:
    listeners = [socket.create_server(("127.0.0.1", 0)) for _ in range(2)]
    threads = [threading.Thread(target=serve, args=pair) for pair in zip(listeners, (b"", b"220\n"), strict=True)]
    for each in threads:
        each.start()
    yield [each.getsockname()[1] for each in listeners]
    for each in listeners:
        with suppress(OSError):
            each.shutdown(socket.SHUT_RDWR)
        each.close()
    for thread in threads:
        thread.join()


@pytest.mark.parametrize("way", ["socks", "connect"])
def test_each_is_served_as_if_it_were(way: str, ports: list[int]) -> None:
    policy = Policy(egress="proxy-only", allow_host_loopback=True, host_loopback_ports=tuple(ports))
    command = ["/usr/bin/python3", "-I", "-S", "-c", CLIENT, way, *map(str, ports)]
    found = json.loads(Cage(policy).run(command, check=True, timeout=60).stdout)
    both = ["12345\n", "220\n12345\n"]
    assert found == {"as_is": both, "in_pieces": both, "at_once": both, "late": both, "silent": ["", "220\n"],
                     "greeted": ["220\n", "12345\n"]}  # fmt: skip
