"""The door for programs that use no proxy: connections are redirected to it, and it asks where they were meant to go.

A name that was resolved in the cage has an address of its own there, which stands for the name; every other address is
taken as an address, and only network.allow_ips permits it. What no rule could allow never comes here: the kernel
refuses it (`gate.tcp.refused`). A client that is refused here (the rules were tightened, or the server cannot be
reached) is connected already, so its connection is reset.
"""

from __future__ import annotations

import socket
import struct
from ipaddress import IPv4Address

from pysandbox.gate.askers import DoorClient
from pysandbox.gate.tcp.proxying import proxy_connection
from pysandbox.gate.tcp.stream import ClientStream
from pysandbox.gate.tcp.target import Denied, DialTarget, Unreachable
from pysandbox.shapes import TYPE_CHECKING

if TYPE_CHECKING:
    from pysandbox.gate.doors import DoorSession

SO_ORIGINAL_DST = 80  # linux/netfilter_ipv4.h
SOCKADDR_IN = struct.Struct("!2xH4s8x")


async def serve_transparent(session: DoorSession, client: ClientStream) -> None:
    address, port = original(client.sock)
    try:
        target, server = await session.dial(DialTarget(str(address), port))
    except (Denied, Unreachable):
        client.reset()
        return
    await proxy_connection(session, target, client, ClientStream(server, session.turns))


def peer_of(sock: socket.socket) -> DoorClient | None:
    """Who is at the other end of a connection to any door, as the cage's network lists it; None where it has gone."""
    try:
        host, port = original(sock)
        return DoorClient("tcp", sock.getpeername()[:2], (str(host), port))
    except OSError:
        return None


def original(sock: socket.socket) -> tuple[IPv4Address, int]:
    """The destination of a connection before the redirect; without a redirect, its local address. Raises OSError."""
    try:
        port, address = SOCKADDR_IN.unpack(sock.getsockopt(socket.SOL_IP, SO_ORIGINAL_DST, SOCKADDR_IN.size))
        return IPv4Address(address), port
    except OSError:  # no nf_tables, or not by way of it
        address, port = sock.getsockname()[:2]
        return IPv4Address(address), port
