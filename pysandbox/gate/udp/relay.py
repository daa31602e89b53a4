"""One UDP address and its peers: each peer has a socket of its own on the other side, so that answers go back to it.

A peer is forgotten when it was silent for a while, and when there are too many: a flood of made-up addresses costs
no more sockets than its FlowTable keeps, out of the cage's share. A few datagrams are a turn of the cage, and each is
sent under its `Hush`. Datagrams are dropped where either side does not keep up, as a network would.
"""

from __future__ import annotations

import asyncio
import socket
from collections import OrderedDict
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial

from pysandbox.errors import CageClosedError
from pysandbox.shapes import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pysandbox.gate.hush import Hush
    from pysandbox.gate.shares import Share
    from pysandbox.gate.turns import LoopTurns

IDLE = 60.0  # seconds without a datagram in either direction
AT_ONCE = 8  # datagrams in one turn
LONGEST = 65535

Address = tuple[Any, ...]
Way = Callable[[], socket.socket]  # a connected socket of the other side; raises OSError, CageClosedError


class Peer:
    """One address, and the socket on the other side that stands for it."""

    def __init__(self, exchange: UdpRelay, address: Address, sock: socket.socket, way: int) -> None:
        self.exchange, self.address, self.sock, self.way = exchange, address, sock, way
        self.last_used = 0.0
        self.last = b""  # what was said: to be said again on the next way when nothing listens at the end of this one


class FlowTable:
    """The peers of all addresses that share it, at most so many, in the order in which they last sent something."""

    def __init__(self, most: int, share: Share) -> None:
        self._most, self.share = most, share
        self.known: OrderedDict[tuple[UdpRelay, Address], Peer] = OrderedDict()

    def make_room(self) -> bool:
        """Makes room for one more peer where it can, and takes a descriptor for it; whether it did."""
        while len(self.known) >= self._most or not self.share.take_or_tell():
            if not self.known:
                return False
            _, peer = next(iter(self.known.items()))
            peer.exchange.drop(peer)
        return True


class UdpRelay:
    """`taken` receives; `ways` lead to the other side, each tried when nothing listens at the end of the one before."""

    def __init__(
        self, taken: socket.socket, ways: Sequence[Way], peers: FlowTable, turns: LoopTurns, hush: Hush
    ) -> None:  # fmt: skip
        self._taken, self._ways, self._peers, self._turns, self._hush = taken, ways, peers, turns, hush
        self._loop = asyncio.get_running_loop()
        self._is_over = False

    async def serve(self) -> None:
        """Relays until it is cancelled. The caller closes `taken`."""
        self._listen(self._taken, self._from_peers)
        try:
            while True:
                await asyncio.sleep(IDLE / 4)
                self._forget(self._loop.time() - IDLE)
        finally:
            self._is_over = True
            self._loop.remove_reader(self._taken)
            self._forget(None)

    def _listen(self, sock: socket.socket, work: Callable[[], None]) -> None:
        self._loop.add_reader(sock, self._now_or_in_turn, sock, work)

    def _now_or_in_turn(self, sock: socket.socket, work: Callable[[], None]) -> None:
        """Calls `work` now, or when the cage has a turn; until then the socket is not read."""
        if self._turns.now():
            work()
            return
        self._loop.remove_reader(sock)
        self._turns.later(partial(self._in_turn, sock, work))

    def _in_turn(self, sock: socket.socket, work: Callable[[], None]) -> None:
        if sock.fileno() >= 0 and not self._is_over:
            self._listen(sock, work)
            work()

    def _from_peers(self) -> None:
        for _ in range(AT_ONCE):
            try:
                said, address = self._taken.recvfrom(LONGEST)
            except OSError:  # nothing more; or an error that was told of one who is gone
                return
            peer = self._peer(address)
            if peer is not None:
                self._say(peer, said)

    def _peer(self, address: Address) -> Peer | None:
        peer = self._peers.known.get((self, address))
        if peer is None:
            peer = self._open(address, 0) if self._peers.make_room() else None
        if peer is not None:
            self._touch(peer)
        return peer

    def _open(self, address: Address, way: int) -> Peer | None:
        """Opens the socket of a new peer; its descriptor has been taken from the cage's share already."""
        try:
            peer = Peer(self, address, self._ways[way](), way)
        except (OSError, CageClosedError):
            self._peers.share.give()
            return None
        self._peers.known[self, address] = peer
        self._listen(peer.sock, partial(self._from_other_side, peer))
        return peer

    def _touch(self, peer: Peer) -> None:
        peer.last_used = self._loop.time()
        self._peers.known.move_to_end((self, peer.address))

    def _say(self, peer: Peer, said: bytes) -> None:
        peer.last = said
        try:
            with self._hush.spoken() as may:
                if may:
                    peer.sock.send(said)
        except ConnectionRefusedError:  # of an earlier datagram
            self._refused(peer)
        except OSError:
            return

    def _from_other_side(self, peer: Peer) -> None:
        for _ in range(AT_ONCE):
            try:
                said = peer.sock.recv(LONGEST)
            except ConnectionRefusedError:
                self._refused(peer)
                return
            except OSError:
                return
            self._touch(peer)
            with suppress(OSError), self._hush.spoken() as may:
                if may:
                    self._taken.sendto(said, peer.address)

    def _refused(self, peer: Peer) -> None:
        """Nothing listens on the other side: tries the next way once, with the last datagram."""
        self.drop(peer)
        if peer.way + 1 < len(self._ways) and self._peers.make_room():
            following = self._open(peer.address, peer.way + 1)
            if following is not None:
                self._touch(following)
                with suppress(OSError), self._hush.spoken() as may:
                    if may:
                        following.sock.send(peer.last)

    def drop(self, peer: Peer) -> None:
        del self._peers.known[self, peer.address]
        self._loop.remove_reader(peer.sock)
        peer.sock.close()
        self._peers.share.give()

    def _forget(self, before: float | None) -> None:
        """Forgets every peer, or those that have sent nothing since a time."""
        for peer in [each for each in self._peers.known.values() if each.exchange is self]:
            if before is None or peer.last_used <= before:
                self.drop(peer)
