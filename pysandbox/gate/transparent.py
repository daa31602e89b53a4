"""The door for programs that have never heard of a proxy: where a connection was meant to go.

A name that was resolved in the cage has an address of its own there, which says the name; every other address is meant
as such, and only network.allow_ips permits it. What no rule could allow never comes here: the kernel refuses it
(`gate.refused`). Who may not go on for another reason (the rules were tightened, the server is not there) is connected
by then, and meets a reset.
"""

from __future__ import annotations

import socket
import struct
from ipaddress import IPv4Address
from typing import TYPE_CHECKING

from pysandbox.gate.carry import carry
from pysandbox.gate.dial import Denied, Unreachable, dial, target_of
from pysandbox.gate.stream import Stream

if TYPE_CHECKING:
    from pysandbox.gate.admission import Admission

SO_ORIGINAL_DST = 80  # linux/netfilter_ipv4.h
SOCKADDR_IN = struct.Struct("!2xH4s8x")


async def serve_transparent(admission: Admission, client: Stream) -> None:
    target = target_of(admission, *original(client.sock))
    try:
        server = Stream(await dial(admission, target), admission.turns)
    except (Denied, Unreachable):
        client.reset()
        return
    await carry(admission, target, client, server)


def original(sock: socket.socket) -> tuple[IPv4Address, int]:
    """Where it was sent to before it was redirected; without a redirect, where it has arrived. Raises OSError."""
    try:
        port, address = SOCKADDR_IN.unpack(sock.getsockopt(socket.SOL_IP, SO_ORIGINAL_DST, SOCKADDR_IN.size))
        return IPv4Address(address), port
    except OSError:  # no nf_tables, or not by way of it
        address, port = sock.getsockname()[:2]
        return IPv4Address(address), port
