"""Datagrams that a cage sends to where nothing listens: QUIC, NTP, a game. They arrive nowhere, with or without this
file, which records them with the line that would allow them.

A raw socket in the cage's network receives a copy (raw(7), csrc/host/net/netns.c): headers alone, in the kernel's own
queue, which drops what is too much. A flood is read only now and then, so that it costs the host nothing.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from functools import partial
from ipaddress import IPv4Address

from pysandbox.gate.askers import DoorClient, served
from pysandbox.gate.rules import Decision
from pysandbox.gate.tcp.stream import until_readable
from pysandbox.gate.tcp.target import DialTarget, check_literal, target_of
from pysandbox.shapes import TYPE_CHECKING

if TYPE_CHECKING:
    from pysandbox.gate.cage_session import CageSession
    from pysandbox.gate.doors import DoorSession

AT_ONCE = 64  # datagrams, then there is
PAUSE = 0.1  # seconds, while the queue may overflow
HEADERS = 68  # bytes
DESTINATION, PORT = struct.Struct("!4s"), struct.Struct("!H")
DNS_PORT = 53
UDP_TO_A_NAME = Decision(False, "network", "")  # no line of a policy opens that


async def serve(session: DoorSession, monitor: socket.socket) -> None:
    """Records dropped datagrams until it is cancelled."""
    with session.monitors.listening(monitor, partial(record_lost, session)):
        while True:
            await until_readable(monitor)
            record_lost(session, monitor)
            await asyncio.sleep(PAUSE)


def record_lost(session: DoorSession, monitor: socket.socket) -> None:
    """Records what has arrived. In the loop."""
    with session.monitors.recording():
        for _ in range(AT_ONCE):
            try:
                said = monitor.recv(HEADERS)
                address, port = destination(said)
                from_itself = said[12:16] == said[16:20]
            except (OSError, struct.error):
                return
            with served(DoorClient("udp", source(said), None)):
                session.note_lost(address, port, source(said)[1] if from_itself else None)


def source(packet: bytes) -> tuple[str, int]:
    """Where it comes from. Of a packet that has a destination."""
    (port,) = PORT.unpack_from(packet, (packet[0] & 15) * 4)
    return str(IPv4Address(packet[12:16])), port


def destination(packet: bytes) -> tuple[IPv4Address, int]:
    """Where an IPv4 packet that carries UDP is sent (RFC 791, RFC 768). Raises struct.error for a truncated one."""
    header = (packet[0] & 15) * 4 if packet else 0
    (address,), (port,) = DESTINATION.unpack_from(packet, 16), PORT.unpack_from(packet, header + 2)
    return IPv4Address(address), port


def answers(session: CageSession, address: IPv4Address, port: int) -> bool:
    """Whether a packet from that port of an address, to the same address, is an answer, and so no datagram of the
    cage's own. Every address is local to the cage, so a program that asks an address sees the answer as a packet to
    that very address. Names are answered for all."""
    outbound = session.outbound
    return port == DNS_PORT or (outbound is not None and outbound.serves(DialTarget(str(address), port)))


def tell(session: CageSession, address: IPv4Address, port: int, replied_by: int | None = None) -> None:
    """Records a datagram to that address. `replied_by`: the port that it comes from, where it comes from there."""
    if replied_by is not None and answers(session, address, replied_by):
        return
    target = target_of(session, address, port)
    if target.host != str(address):
        session.ledger.denied("udp", *target, UDP_TO_A_NAME)
        return
    decision = check_literal(session, address, port, "udp")
    if not decision.allowed:
        session.ledger.denied("udp", *target, decision)
