"""SOCKS5 (RFC 1928) as the cage speaks it at its door: what was asked, and the bytes of an answer. Pure.

Each `read_` takes all that was said so far and gives None while more is needed. CONNECT by name, IPv4 or IPv6 and no
authentication is all there is: what a cage may reach is decided by its policy, and who it is by the door.
"""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address

from pysandbox.policy.names import BadName, IPAddress, canonical
from pysandbox.shapes import NamedTuple

VERSION = 5
CONNECT = 1
NAME, V4, V6 = 3, 1, 4  # ATYP

SUCCEEDED, FAILED, NOT_ALLOWED, NETWORK_UNREACHABLE, HOST_UNREACHABLE, REFUSED = 0, 1, 2, 3, 4, 5
COMMAND_NOT_SUPPORTED, ADDRESS_NOT_SUPPORTED = 7, 8
ACCEPTED, NO_METHOD = b"\5\0", b"\5\xff"  # answers to a greeting


class Greeting(NamedTuple):
    size: int  # bytes of it


class Request(NamedTuple):
    host: str | IPAddress  # canonical
    port: int
    size: int


class SocksRefused(Exception):
    """The client is refused: `answer` is sent, if there is one, and the connection closed."""

    def __init__(self, answer: bytes, why: str, shown: str = "", port: int = 0) -> None:
        super().__init__(why)
        self.answer, self.why, self.shown, self.port = answer, why, shown, port


def read_greeting(said: bytes) -> Greeting | None:
    """Raises SocksRefused; without an answer for what is no SOCKS5 (SOCKS4 has none that would help)."""
    if said and said[0] != VERSION:
        raise SocksRefused(b"", f"SOCKS version {said[0]} is not spoken here")
    if len(said) < 2 or len(said) < 2 + said[1]:
        return None
    if 0 not in said[2 : 2 + said[1]]:
        raise SocksRefused(NO_METHOD, "every method that was offered is one of authentication")
    return Greeting(2 + said[1])


def read_request(said: bytes) -> Request | None:
    """Raises SocksRefused."""
    if said and said[0] != VERSION:
        raise SocksRefused(b"", f"a request of SOCKS version {said[0]}")
    if len(said) < 5:
        return None
    _, command, _, kind, first = said[:5]
    sizes = {V4: 4, V6: 16, NAME: 1 + first}
    if kind not in sizes:
        raise SocksRefused(reply(ADDRESS_NOT_SUPPORTED), f"address type {kind} is not known")
    end = 4 + sizes[kind]
    if len(said) < end + 2:
        return None
    port = int.from_bytes(said[end : end + 2], "big")
    if command != CONNECT:
        raise SocksRefused(reply(COMMAND_NOT_SUPPORTED), f"command {command} is not CONNECT")
    return Request(_host(kind, said[4:end], port), port, end + 2)


def reply(code: int) -> bytes:
    """A reply. Its bound address is zero: the gatekeeper's is not for the cage to know."""
    return bytes((VERSION, code, 0, V4)) + bytes(6)


def _host(kind: int, raw: bytes, port: int) -> str | IPAddress:
    if kind == V4:
        return IPv4Address(raw)
    try:
        return canonical(str(IPv6Address(raw))) if kind == V6 else canonical(raw[1:])
    except BadName as error:
        shown = raw[1:].decode("ascii", "backslashreplace")
        raise SocksRefused(reply(NOT_ALLOWED), f"not a host: {error}", shown, port) from None
