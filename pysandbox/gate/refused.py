"""The TCP connections that the kernel of a cage refuses because no rule could allow them: at once, with ECONNREFUSED,
as of a closed port (`probe.netlink`, REFUSE). Here they are written down, with the line that would allow them.

A raw socket in the cage's network hears of them: their first packets alone, in the kernel's own queue, which drops what
is too much. Each says in its unused fields where it was meant to go, since its destination is nobody's by then.
"""

from __future__ import annotations

import socket
import struct
from ipaddress import IPv4Address
from typing import TYPE_CHECKING

from pysandbox.gate.dial import Target, asked, target_of
from pysandbox.gate.rules import Decision
from pysandbox.gate.stream import until_readable

if TYPE_CHECKING:
    from pysandbox.gate.admission import Admission

AT_ONCE = 16  # in one turn
HEADERS = 120  # bytes: the longest of IPv4, and the longest of TCP
MEANT = struct.Struct("!8x4sxB4xH")  # of a TCP header: the acknowledged number, the flags, the urgent pointer
SYN, ACK, RST = 0x02, 0x10, 0x04


async def serve(admission: Admission, ear: socket.socket) -> None:
    """For ever; cancelled at the end."""
    admission.ears[ear] = hear
    try:
        while True:
            await until_readable(ear)
            await admission.turns.take()
            hear(admission, ear, AT_ONCE)
    finally:
        del admission.ears[ear]
        hear(admission, ear)


def hear(admission: Admission, ear: socket.socket, most: int = 1024) -> None:
    """Writes down what has come. In the loop."""
    for _ in range(most):
        try:
            found = meant(ear.recv(HEADERS))
        except (OSError, struct.error):
            return
        if found is not None:
            tell(admission, *found)


def meant(packet: bytes) -> tuple[IPv4Address, int] | None:
    """Where the connection was meant to go whose first packet this is; None for any other. Raises struct.error for
    less."""
    header = (packet[0] & 15) * 4 if packet else 0
    address, flags, port = MEANT.unpack_from(packet, header)
    return (IPv4Address(address), port) if flags & (SYN | ACK | RST) == SYN else None


def tell(admission: Admission, address: IPv4Address, port: int) -> None:
    target = target_of(admission, address, port)
    decision = _decision(admission, target, address)
    if not decision.allowed:
        admission.ledger.denied("tcp", *target, decision)


def _decision(admission: Admission, target: Target, address: IPv4Address) -> Decision:
    if target.host == str(address):
        return asked(admission, address, target.port)
    return admission.rules.name(target.host, target.port)
