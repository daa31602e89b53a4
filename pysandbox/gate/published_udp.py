"""A published UDP port: each peer has a socket of its own in the cage, so that answers find their way back.

A peer is forgotten when nothing was said for a while, and when there are too many: a flood of made-up addresses costs
PEERS sockets. Datagrams are dropped where either side does not keep up, as a network would.
"""

from __future__ import annotations

import asyncio
import socket
from collections import OrderedDict
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from pysandbox.errors import CageClosedError
from pysandbox.gate.published import LOOPBACK

if TYPE_CHECKING:
    from pysandbox.compile.plan import Published
    from pysandbox.gate.published import Stock

PEERS = 256  # of one port
IDLE = 60.0  # seconds without a datagram in either direction
AT_ONCE = 64  # datagrams in one call of the loop: others have their turn
LONGEST = 65535

Address = tuple[Any, ...]


async def serve(published: Published, outside: socket.socket, stock: Stock) -> None:
    """Forwards until it is cancelled. Closing the socket is the caller's."""
    port = Port(published, outside, stock)
    loop = asyncio.get_running_loop()
    loop.add_reader(outside, port.from_outside)
    try:
        while True:
            await asyncio.sleep(IDLE / 4)
            port.forget(loop.time() - IDLE)
    finally:
        loop.remove_reader(outside)
        port.forget(None)


class Peer:
    """One address outside, and the socket in the cage that stands for it."""

    def __init__(self, address: Address, inside: socket.socket, at: str) -> None:
        self.address, self.inside, self.at = address, inside, at
        self.heard = 0.0
        self.last = b""  # what was said: to be said again at ::1 when nothing listens at 127.0.0.1


class Port:
    def __init__(self, published: Published, outside: socket.socket, stock: Stock) -> None:
        self._published, self._outside, self._stock = published, outside, stock
        self._loop = asyncio.get_running_loop()
        self._peers: OrderedDict[Address, Peer] = OrderedDict()  # the last is the one that was heard of last

    def from_outside(self) -> None:
        for _ in range(AT_ONCE):
            try:
                said, address = self._outside.recvfrom(LONGEST)
            except OSError:  # nothing more; or an error that was told of one who is gone
                return
            peer = self._peer(address)
            if peer is not None:
                self._say(peer, said)

    def _peer(self, address: Address) -> Peer | None:
        peer = self._peers.get(address)
        if peer is None:
            while len(self._peers) >= PEERS:
                self._drop(next(iter(self._peers)))
            peer = self._open(address, LOOPBACK[0])
        if peer is not None:
            self._heard(peer)
        return peer

    def _open(self, address: Address, at: str) -> Peer | None:
        try:
            inside = self._stock.take("udp", at)
        except (OSError, CageClosedError):
            return None
        peer = Peer(address, inside, at)
        try:
            inside.connect((at, self._published.inside))
        except OSError:
            inside.close()
            return None
        self._peers[address] = peer
        self._loop.add_reader(inside, self._from_inside, peer)
        return peer

    def _heard(self, peer: Peer) -> None:
        peer.heard = self._loop.time()
        self._peers.move_to_end(peer.address)

    def _say(self, peer: Peer, said: bytes) -> None:
        peer.last = said
        try:
            peer.inside.send(said)
        except ConnectionRefusedError:  # of an earlier datagram
            self._refused(peer)
        except OSError:
            return

    def _from_inside(self, peer: Peer) -> None:
        for _ in range(AT_ONCE):
            try:
                said = peer.inside.recv(LONGEST)
            except ConnectionRefusedError:
                self._refused(peer)
                return
            except OSError:
                return
            self._heard(peer)
            with suppress(OSError):
                self._outside.sendto(said, peer.address)

    def _refused(self, peer: Peer) -> None:
        """Nothing listens there. The next address is tried once, with what was said last."""
        self._drop(peer.address)
        if peer.at == LOOPBACK[0]:
            following = self._open(peer.address, LOOPBACK[1])
            if following is not None:
                self._heard(following)
                with suppress(OSError):
                    following.inside.send(peer.last)

    def _drop(self, address: Address) -> None:
        peer = self._peers.pop(address)
        self._loop.remove_reader(peer.inside)
        peer.inside.close()

    def forget(self, before: float | None) -> None:
        """Everyone, or who was not heard of since."""
        for address, peer in list(self._peers.items()):
            if before is not None and peer.heard > before:
                return
            self._drop(address)
