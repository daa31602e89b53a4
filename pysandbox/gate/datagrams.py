"""One UDP address, and whoever sends to it: each peer has a socket of its own on the other side, so that answers find
their way back.

A peer is forgotten when nothing was said for a while, and when there are too many: a flood of made-up addresses costs
as many sockets as its Peers keep, out of the cage's share. A few datagrams are a turn of the cage's, and each is sent
under its `Hush`. Datagrams are dropped where either side does not keep up, as a network would.
"""

from __future__ import annotations

import asyncio
import socket
from collections import OrderedDict
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from pysandbox.errors import CageClosedError

if TYPE_CHECKING:
    from pysandbox.gate.hush import Hush
    from pysandbox.gate.shares import Share
    from pysandbox.gate.turns import Turns

IDLE = 60.0  # seconds without a datagram in either direction
AT_ONCE = 8  # datagrams in one turn
LONGEST = 65535

Address = tuple[Any, ...]
Way = Callable[[], socket.socket]  # a connected socket of the other side; raises OSError, CageClosedError


class Peer:
    """One address, and the socket on the other side that stands for it."""

    def __init__(self, exchange: Exchange, address: Address, sock: socket.socket, way: int) -> None:
        self.exchange, self.address, self.sock, self.way = exchange, address, sock, way
        self.heard = 0.0
        self.last = b""  # what was said: to be said again on the next way when nothing listens at the end of this one


class Peers:
    """At most so many, at all the addresses that share it; the last is the one that was heard of last."""

    def __init__(self, most: int, share: Share) -> None:
        self._most, self.share = most, share
        self.known: OrderedDict[tuple[Exchange, Address], Peer] = OrderedDict()

    def make_room(self) -> bool:
        """For one more, if there is any; its descriptor is taken then."""
        while len(self.known) >= self._most or not self.share.demand():
            if not self.known:
                return False
            _, peer = next(iter(self.known.items()))
            peer.exchange.drop(peer)
        return True


class Exchange:
    """`taken` receives; `ways` lead to the other side, each tried when nothing listens at the end of the one before."""

    def __init__(
        self, taken: socket.socket, ways: Sequence[Way], peers: Peers, turns: Turns, hush: Hush
    ) -> None:  # fmt: skip
        self._taken, self._ways, self._peers, self._turns, self._hush = taken, ways, peers, turns, hush
        self._loop = asyncio.get_running_loop()
        self._is_over = False

    async def serve(self) -> None:
        """Until it is cancelled. Closing `taken` is the caller's."""
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
        self._loop.add_reader(sock, self._heard_of, sock, work)

    def _heard_of(self, sock: socket.socket, work: Callable[[], None]) -> None:
        """Done now, or when it is the cage's turn; it is not listened to until then."""
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
            self._heard(peer)
        return peer

    def _open(self, address: Address, way: int) -> Peer | None:
        """A descriptor of the cage's share has been taken for it."""
        try:
            peer = Peer(self, address, self._ways[way](), way)
        except (OSError, CageClosedError):
            self._peers.share.give()
            return None
        self._peers.known[self, address] = peer
        self._listen(peer.sock, partial(self._from_other_side, peer))
        return peer

    def _heard(self, peer: Peer) -> None:
        peer.heard = self._loop.time()
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
            self._heard(peer)
            with suppress(OSError), self._hush.spoken() as may:
                if may:
                    self._taken.sendto(said, peer.address)

    def _refused(self, peer: Peer) -> None:
        """Nothing listens there. The next way is tried once, with what was said last."""
        self.drop(peer)
        if peer.way + 1 < len(self._ways) and self._peers.make_room():
            following = self._open(peer.address, peer.way + 1)
            if following is not None:
                self._heard(following)
                with suppress(OSError), self._hush.spoken() as may:
                    if may:
                        following.sock.send(peer.last)

    def drop(self, peer: Peer) -> None:
        del self._peers.known[self, peer.address]
        self._loop.remove_reader(peer.sock)
        peer.sock.close()
        self._peers.share.give()

    def _forget(self, before: float | None) -> None:
        """Everyone, or who was not heard of since."""
        for peer in [each for each in self._peers.known.values() if each.exchange is self]:
            if before is None or peer.heard <= before:
                self.drop(peer)
