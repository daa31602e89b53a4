"""The TCP connections that the kernel of a cage refuses because no rule could allow them: at once, with ECONNREFUSED,
as of a closed port (`netfilter.netlink`, REFUSE). Here they are written down, with the line that would allow them.

A raw socket in the cage's network receives a copy of their first packets, in the kernel's own queue, which drops what
is too much. Each carries in unused fields of its header where it was meant to go, since its destination is rewritten.
"""

from __future__ import annotations

import socket
import struct
from functools import partial
from ipaddress import IPv4Address

from pysandbox.gate.rules import Decision
from pysandbox.gate.tcp.stream import until_readable
from pysandbox.gate.tcp.target import DialTarget, check_literal, target_of
from pysandbox.shapes import TYPE_CHECKING

if TYPE_CHECKING:
    from pysandbox.gate.cage_session import CageSession
    from pysandbox.gate.doors import DoorSession

AT_ONCE = 16  # in one turn
HEADERS = 120  # bytes: the longest of IPv4, and the longest of TCP
MEANT = struct.Struct("!8x4sxB4xH")  # of a TCP header: the acknowledged number, the flags, the urgent pointer
SYN, ACK, RST = 0x02, 0x10, 0x04


async def serve(session: DoorSession, monitor: socket.socket) -> None:
    """Records refused connections until it is cancelled."""
    with session.monitors.listening(monitor, partial(record_refused, session)):
        while True:
            await until_readable(monitor)
            await session.turns.take()
            record_refused(session, monitor, AT_ONCE)


def record_refused(session: DoorSession, monitor: socket.socket, most: int = 1024) -> None:
    """Records what has arrived. In the loop."""
    with session.monitors.recording():
        for _ in range(most):
            try:
                found = meant(monitor.recv(HEADERS))
            except (OSError, struct.error):
                return
            if found is not None:
                session.note_refused(*found)


def meant(packet: bytes) -> tuple[IPv4Address, int] | None:
    """Where the connection was meant to go whose first packet this is; None for any other packet. Raises struct.error
    for a truncated one."""
    header = (packet[0] & 15) * 4 if packet else 0
    address, flags, port = MEANT.unpack_from(packet, header)
    return (IPv4Address(address), port) if flags & (SYN | ACK | RST) == SYN else None


def tell(session: CageSession, address: IPv4Address, port: int) -> None:
    """Records a refused connection to that address, unless a rule allows it now."""
    target = target_of(session, address, port)
    decision = _decision(session, target, address)
    if not decision.allowed:
        session.ledger.denied("tcp", *target, decision)


def _decision(session: CageSession, target: DialTarget, address: IPv4Address) -> Decision:
    if target.host == str(address):
        return check_literal(session, address, target.port)
    return session.rules.name(target.host, target.port)
