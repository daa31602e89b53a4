"""Connected sockets for tests: over loopback, and what a test asks of one end."""

from __future__ import annotations

import socket

PATIENCE = 20.0  # seconds until a socket that should have said something fails its test


def pair() -> tuple[socket.socket, socket.socket]:
    """Two ends of one TCP connection over loopback; what hangs fails."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        client = socket.create_connection(listener.getsockname(), PATIENCE)
        server, _ = listener.accept()
    server.settimeout(PATIENCE)
    return client, server


def exactly(sock: socket.socket, size: int) -> bytes:
    """The next bytes; fewer when the other side ends before."""
    got = bytearray()
    while len(got) < size and (more := sock.recv(size - len(got))):
        got += more
    return bytes(got)


def everything(sock: socket.socket) -> bytes:
    """All bytes up to the end."""
    got = bytearray()
    while more := sock.recv(65536):
        got += more
    return bytes(got)


def is_cut(connection: socket.socket) -> bool:
    """Whether its other side is gone by now."""
    connection.settimeout(0)
    try:
        return connection.recv(1) == b""
    except ConnectionResetError:
        return True
    except BlockingIOError:
        return False


def fill(sock: socket.socket) -> int:
    """Sends until nothing more is taken for a while: how many bytes were."""
    sent, block = 0, bytes(65536)
    sock.settimeout(0.3)
    try:
        while True:
            sent += sock.send(block)
    except TimeoutError:
        return sent
    finally:
        sock.settimeout(PATIENCE)
