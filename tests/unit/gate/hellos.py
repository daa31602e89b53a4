"""TLS ClientHellos, made by hand so that each part can be odd."""

from __future__ import annotations


def vector(size: int, content: bytes) -> bytes:
    return len(content).to_bytes(size, "big") + content


def extension(kind: int, content: bytes) -> bytes:
    return kind.to_bytes(2, "big") + vector(2, content)


def server_name(*names: bytes) -> bytes:
    return extension(0, vector(2, b"".join(b"\0" + vector(2, name) for name in names)))


def alpn(*protocols: bytes) -> bytes:
    return extension(16, vector(2, b"".join(vector(1, each) for each in protocols)))


GREASE = extension(0x0A0A, b"") + extension(0x1A1A, b"\0")
ECH = extension(0xFE0D, b"\0" * 40)


def body(*extensions: bytes, session: bytes = b"s" * 32, suites: bytes = b"\x0a\x0a\x13\x01") -> bytes:
    head = b"\3\3" + b"r" * 32 + vector(1, session) + vector(2, suites) + vector(1, b"\0")
    return head + (vector(2, b"".join(extensions)) if extensions else b"")


def handshake(content: bytes, kind: int = 1) -> bytes:
    return bytes([kind]) + vector(3, content)


def records(message: bytes, size: int = 16384) -> bytes:
    """In records of this many bytes."""
    pieces = [message[start : start + size] for start in range(0, len(message), size)]
    return b"".join(b"\x16\3\1" + vector(2, piece) for piece in pieces)


def hello(*extensions: bytes, size: int = 16384) -> bytes:
    return records(handshake(body(*extensions)), size)
