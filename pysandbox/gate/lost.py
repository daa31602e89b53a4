"""What a cage sends by UDP to where nobody is: QUIC, NTP, a game. It arrives nowhere, with or without this; here it is
written down, with the line that would allow it.

A raw socket in the cage's network hears of it (raw(7), csrc/host/netns.c): headers alone, in the kernel's own queue,
which drops what is too much. A flood is looked at now and then, so that it costs the host nothing.
"""

from __future__ import annotations

import asyncio
import select
import socket
import struct
from ipaddress import IPv4Address
from typing import TYPE_CHECKING

from pysandbox.gate.dial import Target, asked, target_of
from pysandbox.gate.rules import Decision
from pysandbox.gate.stream import until_readable

if TYPE_CHECKING:
    from pysandbox.gate.admission import Admission

AT_ONCE = 64  # datagrams, then there is
PAUSE = 0.1  # seconds, while the queue may overflow
HEADERS = 68  # bytes
DESTINATION, PORT = struct.Struct("!4s"), struct.Struct("!H")
DNS_PORT = 53
UDP_TO_A_NAME = Decision(False, "network", "")  # no line of a policy opens that


async def serve(admission: Admission, ear: socket.socket) -> None:
    """For ever; cancelled at the end."""
    admission.ears[ear] = hear
    try:
        while True:
            await until_readable(ear)
            hear(admission, ear)
            await asyncio.sleep(PAUSE)
    finally:
        del admission.ears[ear]
        hear(admission, ear)


def hear(admission: Admission, ear: socket.socket) -> None:
    """Writes down what has come. In the loop."""
    for _ in range(AT_ONCE):
        try:
            said = ear.recv(HEADERS)
            address, port = destination(said)
            is_answer = answers(admission, said)
        except (OSError, struct.error):
            return
        if not is_answer:
            tell(admission, address, port)


def has_heard(ear: socket.socket) -> bool:
    """Whether something is there to be written down. Any thread."""
    poller = select.poll()
    poller.register(ear, select.POLLIN)
    return bool(poller.poll(0))


def destination(packet: bytes) -> tuple[IPv4Address, int]:
    """Of an IPv4 packet that carries UDP (RFC 791, RFC 768). Raises struct.error for less."""
    header = (packet[0] & 15) * 4 if packet else 0
    (address,), (port,) = DESTINATION.unpack_from(packet, 16), PORT.unpack_from(packet, header + 2)
    return IPv4Address(address), port


def answers(admission: Admission, packet: bytes) -> bool:
    """Whether it is what somebody was told who has asked: every address is local to the cage, so whoever asks one has
    that address himself, and its answer goes there too. Names are answered for all of them."""
    source, address = packet[12:16], packet[16:20]
    (port,) = PORT.unpack_from(packet, (packet[0] & 15) * 4)
    outbound = admission.outbound
    is_served = outbound is not None and outbound.serves(Target(str(IPv4Address(address)), port))
    return source == address and (port == DNS_PORT or is_served)


def tell(admission: Admission, address: IPv4Address, port: int) -> None:
    target = target_of(admission, address, port)
    if target.host != str(address):
        admission.ledger.denied("udp", *target, UDP_TO_A_NAME)
        return
    decision = asked(admission, address, port, "udp")
    if not decision.allowed:
        admission.ledger.denied("udp", *target, decision)
