"""A struct sockaddr as bytes, and what it says (ip(7), ipv6(7), unix(7)). Pure."""

from __future__ import annotations

import struct

from pysandbox.policy.endpoint import MAPPED, TCP, UDP
from pysandbox.shapes import NamedTuple

AF_UNSPEC, AF_UNIX, AF_INET, AF_INET6 = 0, 1, 2, 10
IPPROTO_TCP, IPPROTO_UDP = 6, 17
PROTOCOL_BITS = {IPPROTO_TCP: TCP, IPPROTO_UDP: UDP}
PROTOCOL_NAMES = {IPPROTO_TCP: "tcp", IPPROTO_UDP: "udp"}
IN4, IN6 = struct.Struct("!H4s"), struct.Struct("!HI16s")  # after the family, which is in the machine's order
V4_SIZE, V6_SIZE = 16, 24  # of struct sockaddr_in; of sockaddr_in6 up to its scope


class Address(NamedTuple):
    """An IP address of sixteen bytes (IPv4 mapped) and a port."""

    packed: bytes
    port: int

    @property
    def host(self) -> str:
        """As people write it."""
        import ipaddress

        if self.packed.startswith(MAPPED):
            return str(ipaddress.IPv4Address(self.packed[12:]))
        return str(ipaddress.IPv6Address(self.packed))

    def text(self, protocol: int) -> str:
        """As a line of allow_ips: `192.0.2.7:443/tcp`."""
        host = self.host if self.packed.startswith(MAPPED) else f"[{self.host}]"
        name = PROTOCOL_NAMES.get(protocol)
        return f"{host}:{self.port}" + (f"/{name}" if name else "")


def family(raw: bytes) -> int:
    return int.from_bytes(raw[:2], "little") if len(raw) >= 2 else AF_UNSPEC


def ip_address(raw: bytes) -> Address | None:
    """None for what is not an IP address, or too short to be one."""
    if family(raw) == AF_INET and len(raw) >= V4_SIZE:
        port, four = IN4.unpack_from(raw, 2)
        return Address(MAPPED + four, port)
    if family(raw) == AF_INET6 and len(raw) >= V6_SIZE:
        port, _, six = IN6.unpack_from(raw, 2)
        return Address(six, port)
    return None


def unix_path(raw: bytes) -> str | None:
    """The path of a unix address, "@name" for an abstract one; None for another family."""
    if family(raw) != AF_UNIX:
        return None
    name = raw[2:]
    if name.startswith(b"\0"):
        return "@" + name[1:].decode(errors="replace")
    return name.split(b"\0", 1)[0].decode(errors="surrogateescape")
