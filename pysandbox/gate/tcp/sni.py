"""The name in a TLS ClientHello (RFC 8446 4.1.2, RFC 6066 3), read strictly. Pure.

A server may be more lenient than this, so whatever is odd is refused instead of skipped: two names, a repeated
extension, bytes left over, another message before it. The hello is put together from as many records as it came in.
With encrypted client hello (ECH) the outer name is the one that is read.
"""

from __future__ import annotations

from pysandbox.shapes import NamedTuple

HANDSHAKE, CLIENT_HELLO = 22, 1
LONGEST_RECORD = 16384
LONGEST_HELLO = 65536  # post-quantum key shares and ECH need some 4 KiB; nothing sound needs this
MOST_RECORDS = 256
SERVER_NAME, ALPN = 0, 16
HOST_NAME = 0


class NotTls(ValueError):
    """What is no ClientHello, or none that could be read; says why."""


class ClientHello(NamedTuple):
    name: bytes | None  # as it was sent
    alpn: tuple[bytes, ...]


class HelloReader:
    """Takes the bytes in any pieces; each is looked at once."""

    def __init__(self) -> None:
        self._pending = bytearray()
        self._hello = bytearray()
        self._records = 0

    @property
    def rest(self) -> bytes:
        """What has come after the hello."""
        return bytes(self._pending)

    def feed(self, said: bytes) -> ClientHello | None:
        """The hello once it is whole, None while it is not. Raises NotTls."""
        self._pending += said
        while (fragment := self._next_fragment()) is not None:
            self._hello += fragment
            if self._hello[0] != CLIENT_HELLO:
                raise NotTls(f"a handshake begins with message {self._hello[0]} instead of a ClientHello")
            if len(self._hello) >= 4:
                size = int.from_bytes(self._hello[1:4], "big")
                if size > LONGEST_HELLO:
                    raise NotTls(f"a ClientHello of {size} bytes")
                if len(self._hello) > 4 + size:
                    raise NotTls("another message follows the ClientHello at once")
                if len(self._hello) == 4 + size:
                    return _parse(bytes(self._hello[4:]))
        return None

    def _next_fragment(self) -> bytes | None:
        head = self._pending
        if (head and head[0] != HANDSHAKE) or (len(head) > 1 and head[1] != 3):
            raise NotTls("it does not begin with a handshake record")
        if len(head) < 5:
            return None
        size = int.from_bytes(head[3:5], "big")
        if not 0 < size <= LONGEST_RECORD:
            raise NotTls(f"a record of {size} bytes")
        if len(head) < 5 + size:
            return None
        self._records += 1
        if self._records > MOST_RECORDS:
            raise NotTls(f"a ClientHello in more than {MOST_RECORDS} records")
        fragment = bytes(head[5 : 5 + size])
        del head[: 5 + size]
        return fragment


class _Cursor:
    """Reads lengths and vectors; never past the end."""

    def __init__(self, raw: bytes) -> None:
        self._raw, self._at = raw, 0

    @property
    def left(self) -> int:
        return len(self._raw) - self._at

    def take(self, size: int) -> bytes:
        if size > self.left:
            raise NotTls("a length points past the end")
        self._at += size
        return self._raw[self._at - size : self._at]

    def number(self, size: int) -> int:
        return int.from_bytes(self.take(size), "big")

    def vector(self, prefix: int, least: int = 0, most: int = 65535) -> bytes:
        size = self.number(prefix)
        if not least <= size <= most:
            raise NotTls(f"a vector of {size} bytes")
        return self.take(size)


def _parse(body: bytes) -> ClientHello:
    at = _Cursor(body)
    if at.number(1) != 3:
        raise NotTls("a version that is not TLS")
    at.take(1 + 32)  # the rest of the version, the random
    at.vector(1, most=32)
    if len(at.vector(2, least=2)) % 2:
        raise NotTls("half a cipher suite")
    at.vector(1, least=1)
    extensions = _extensions(at.vector(2)) if at.left else {}  # TLS 1.2 and older may end here
    if at.left:
        raise NotTls("bytes are left after the extensions")
    name = _server_name(extensions[SERVER_NAME]) if SERVER_NAME in extensions else None
    alpn = _alpn(extensions[ALPN]) if ALPN in extensions else ()
    return ClientHello(name, alpn)


def _extensions(raw: bytes) -> dict[int, bytes]:
    at, found = _Cursor(raw), dict[int, bytes]()
    while at.left:
        kind = at.number(2)
        if kind in found:
            raise NotTls(f"extension {kind} twice")
        found[kind] = at.vector(2)
    return found


def _server_name(raw: bytes) -> bytes:
    outer = _Cursor(raw)
    at = _Cursor(outer.vector(2, least=1))
    if at.number(1) != HOST_NAME:
        raise NotTls("a server name that is no host name")
    name = at.vector(2, least=1)
    if at.left or outer.left:
        raise NotTls("more than one server name")
    return name


def _alpn(raw: bytes) -> tuple[bytes, ...]:
    outer = _Cursor(raw)
    at, found = _Cursor(outer.vector(2, least=2)), list[bytes]()
    while at.left:
        found.append(at.vector(1, least=1))
    if outer.left:
        raise NotTls("bytes are left after the protocols")
    return tuple(found)
