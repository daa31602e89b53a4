"""Who talks through the doors of a cage, and the servers that answer: bytes of SOCKS, CONNECT and HTTP by hand."""

from __future__ import annotations

import socket
import struct

from _support.doors import Doors
from _support.sockets import PATIENCE, exactly


def connect(port: int, host: str = "127.0.0.1") -> socket.socket:
    return socket.create_connection((host, port), PATIENCE)


def head(sock: socket.socket) -> bytes:
    said = b""
    while b"\r\n\r\n" not in said:
        if not (more := sock.recv(1)):
            raise ConnectionError(f"it ended after {said!r}")
        said += more
    return said


def echo(client: socket.socket) -> None:
    while said := client.recv(65536):
        client.sendall(said)


def a_banner(client: socket.socket) -> None:
    client.sendall(b"220 ready\r\n")
    echo(client)


class Origin:
    """A small HTTP server that keeps the heads it was sent."""

    def __init__(self, answer: bytes = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi") -> None:
        self.heads: list[bytes] = []
        self._answer = answer

    def __call__(self, client: socket.socket) -> None:
        while True:
            self.heads.append(head(client))
            client.sendall(self._answer)


def socks(port: int, host: str | bytes, to: int) -> tuple[int, socket.socket]:
    """The reply code of a CONNECT by name."""
    sock = connect(port)
    sock.sendall(b"\5\1\0")
    assert exactly(sock, 2) == b"\5\0"
    name = host.encode() if isinstance(host, str) else host
    sock.sendall(b"\5\1\0\3" + bytes([len(name)]) + name + struct.pack("!H", to))
    answer = exactly(sock, 10)
    return answer[1], sock


def connected(doors: Doors, host: str, to: int) -> tuple[bytes, socket.socket]:
    sock = connect(doors.ports["http"])
    sock.sendall(f"CONNECT {host}:{to} HTTP/1.1\r\nHost: {host}:{to}\r\n\r\n".encode())
    return head(sock), sock
