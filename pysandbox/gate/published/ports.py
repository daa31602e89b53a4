"""A port of the cage on the host (network.ports): what connects there is connected to the cage's own loopback.

    listen             takes the ports on the host, in the thread that opens the cage: a taken one refuses the cage
    serve_published    one port, in the gatekeeper's loop, until the cage ends; UDP by an `Exchange`

The inside is reached by sockets of the cage's own network namespace (`Stock`), connected to 127.0.0.1 there, and to
::1 where nothing listens at that. Nothing but the listed ports is forwarded, and nothing of the host's network is seen
by the cage: to it every caller is itself.
"""

from __future__ import annotations

import asyncio
import errno
import os
import socket
import struct
from collections.abc import Iterable, Sequence
from contextlib import ExitStack, suppress
from functools import partial

from pysandbox.errors import CageClosedError, StartError
from pysandbox.gate.published.inside import netns_sockets
from pysandbox.gate.tcp.stream import until_readable
from pysandbox.shapes import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from pysandbox.compile.plan import Published
    from pysandbox.gate.cage_session import CageSession
    from pysandbox.gate.shares import Share
    from pysandbox.gate.tcp.relay import Spliced
    from pysandbox.live.init import CageInit

Ports: TypeAlias = "Sequence[tuple[Published, socket.socket]]"
KINDS = {"tcp": socket.SOCK_STREAM, "udp": socket.SOCK_DGRAM}
LOOPBACK = ("127.0.0.1", "::1")  # of the cage, in the order in which they are tried
ANY = {"127.0.0.1": "0.0.0.0", "::1": "::"}
BACKLOG = 256
AT_ONCE = 8  # sockets made in one visit to the cage, which costs as much as all of them
WAITING = 64  # connections of one port that the cage has not accepted yet
EACH = 2  # descriptors of one connection: the caller's and the one inside
PEERS = 256  # of one UDP port
PATIENCE = 10.0  # seconds for the cage to accept
BACK_OFF = 0.1  # seconds until the next try, where memory is short
RESET = struct.pack("ii", 1, 0)  # struct linger: closing it is a RST

HINTS = {
    errno.EADDRINUSE: "another program or cage has this port: end it, or publish another one in network.ports",
    errno.EACCES: "ports below net.ipv4.ip_unprivileged_port_start are not for every user: publish a higher one",
    errno.EADDRNOTAVAIL: "this host does not have that address: publish on one that it has",
}


def listen(published: Iterable[Published]) -> Ports:
    """Listens at every port. Raises StartError, and then at none."""
    with ExitStack() as undo:
        taken = [(each, undo.enter_context(_listener(each))) for each in published]
        undo.pop_all()
    return taken


def _listener(published: Published) -> socket.socket:
    family = socket.AF_INET6 if ":" in published.address else socket.AF_INET
    taken = socket.socket(family, KINDS[published.protocol] | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK)
    try:
        if family == socket.AF_INET6:
            taken.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)  # :: is not 0.0.0.0 as well
        if published.protocol == "tcp":
            taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        taken.bind((published.address, published.port))
        if published.protocol == "tcp":
            taken.listen(BACKLOG)
    except OSError as error:
        taken.close()
        at = f"{published.address}:{published.port}/{published.protocol}"
        raise StartError("network", error.errno or 0, at, HINTS.get(error.errno or 0)) from None
    return taken


class SocketPool:
    """Sockets of a cage's own network that are not connected yet. One for each cage; belongs to the loop."""

    def __init__(self, live: CageInit, share: Share) -> None:
        self._live, self._share = live, share
        self._kept: dict[tuple[str, str], list[socket.socket]] = {}

    def take(self, protocol: str, address: str) -> socket.socket:
        """A socket that can be connected to `address`; the caller closes it. Raises CageClosedError, StartError."""
        kept = self._kept.setdefault((protocol, address), [])
        if not kept:
            kept += netns_sockets(self._live, [(protocol, ANY[address], 0)] * AT_ONCE)
            self._share.note(AT_ONCE)
        self._share.give()  # whoever takes it has asked for it
        return kept.pop()

    def close(self) -> None:
        for kept in self._kept.values():
            while kept:
                kept.pop().close()
                self._share.give()


async def serve_published(session: CageSession, published: Published, taken: socket.socket, pool: SocketPool) -> None:
    """Serves what `listen` returned until it is cancelled; what it has relayed is cut then. The caller closes
    `taken`."""
    if published.protocol == "udp":
        from pysandbox.gate.udp.relay import FlowTable, UdpRelay

        ways = [partial(_inside, pool, address, published.inside) for address in LOOPBACK]
        await UdpRelay(taken, ways, FlowTable(PEERS, session.descriptors), session.turns, session.inward).serve()
    else:
        await _serve_tcp(session, published, taken, pool)


def _inside(pool: SocketPool, address: str, port: int) -> socket.socket:
    inside = pool.take("udp", address)
    try:
        inside.connect((address, port))
    except OSError:
        inside.close()
        raise
    return inside


async def _serve_tcp(session: CageSession, published: Published, listener: socket.socket, pool: SocketPool) -> None:
    port = Port(session, published, listener, pool)
    try:
        await port.serve()
    finally:
        await port.end()


class Port:
    """One published TCP port and who is connected to it. A connection has its descriptors from before its accept to its
    end: what is more than the cage's share waits in the kernel's queue.

    It accepts by itself and not by `sock_accept`, which may lose what it has accepted when cancelled.
    """

    def __init__(self, session: CageSession, published: Published, listener: socket.socket, pool: SocketPool) -> None:
        self._session, self._published, self._listener, self._pool = session, published, listener, pool
        self._loop = asyncio.get_running_loop()
        self._waiting = asyncio.Semaphore(WAITING)
        self._connecting: set[asyncio.Task[None]] = set()
        self._relayed: set[int] = set()
        self._is_empty = asyncio.Event()

    async def serve(self) -> None:
        """Serves the port until it is cancelled."""
        while True:
            await until_readable(self._listener)
            await self._session.turns.take()
            await self._session.descriptors.room(EACH)
            try:
                client, _address = self._listener.accept()
            except OSError as error:  # out of memory, or whoever was there has gone
                self._session.descriptors.give(EACH)
                if not isinstance(error, BlockingIOError | ConnectionAbortedError):
                    await asyncio.sleep(BACK_OFF)
                continue
            self._admit(client)

    def _admit(self, client: socket.socket) -> None:
        client.setblocking(False)
        task = self._loop.create_task(self._connect(client))
        self._connecting.add(task)
        task.add_done_callback(partial(self._connected, client))

    def _connected(self, client: socket.socket, task: asyncio.Task[None]) -> None:
        """A done callback, because it runs even for a task that was cancelled before it began."""
        self._connecting.discard(task)
        if client.fileno() >= 0:  # the relay has not taken it
            refuse(client)
            self._left()

    def _left(self) -> None:
        self._session.descriptors.give(EACH)

    async def _connect(self, client: socket.socket) -> None:
        try:
            async with self._waiting:
                inside = await self._reach()
        except (OSError, CageClosedError):
            return
        try:
            splice = partial(
                self._session.relay.splice, client, inside, self._published, self._over, cage=self._session.number
            )
            self._relayed.add(self._session.connections.join(splice))
        except OSError:  # of the relay, which has closed both; or the cage is reached by nobody any more
            inside.close()
            if client.fileno() < 0:
                self._left()

    async def _reach(self) -> socket.socket:
        """A connection to the cage's server. Raises OSError, CageClosedError."""
        refused: OSError = ConnectionRefusedError(errno.ECONNREFUSED, os.strerror(errno.ECONNREFUSED))
        for address in LOOPBACK:
            inside = self._pool.take("tcp", address)
            try:
                async with asyncio.timeout(PATIENCE):
                    await asyncio.get_running_loop().sock_connect(inside, (address, self._published.inside))
                return inside
            except OSError as error:  # TimeoutError is one
                inside.close()
                refused = error
            except BaseException:
                inside.close()
                raise
        raise refused

    def _over(self, spliced: Spliced) -> None:
        self._relayed.discard(spliced.number)
        self._session.connections.parted(spliced.number)
        if not self._relayed:
            self._is_empty.set()
        self._left()

    async def end(self) -> None:
        """Resets every connection; returns when none is left."""
        for task in list(self._connecting):
            task.cancel()
        self._is_empty.clear()
        for number in list(self._relayed):
            self._session.relay.cut(number)
        if self._relayed:
            await self._is_empty.wait()


def refuse(client: socket.socket) -> None:
    """Closes with a reset, as a port at which nothing listens."""
    with suppress(OSError):
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
    client.close()
