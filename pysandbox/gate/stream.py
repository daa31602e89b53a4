"""A connected socket in the gatekeeper's loop: reading, writing, and the ways to hang up.

What was read too far is put back with `said`. The socket is this object's, until somebody `give`s it away.
"""

from __future__ import annotations

import asyncio
import select
import socket
import struct
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from pysandbox.gate.inside import as_sockets

if TYPE_CHECKING:
    from pysandbox.gate.turns import Turns

READ_AT_ONCE = 65536
LINGER_SECONDS = 1.0  # for a client to read the last words before it is hung up on
LINGER_BYTES = 1 << 20


class Stream:
    """`turns` are those of the cage that it is for, whichever side it speaks to."""

    def __init__(self, sock: socket.socket, turns: Turns) -> None:
        sock.setblocking(False)
        self.sock, self.turns = sock, turns
        self.said = b""  # read, and not yet used
        self._loop = asyncio.get_running_loop()

    async def read(self) -> bytes:
        """The next bytes; b"" at the end. Raises OSError."""
        said, self.said = self.said, b""
        if said:
            return said
        await self.turns.take()
        return await self._loop.sock_recv(self.sock, READ_AT_ONCE)

    async def exactly(self, size: int) -> bytes:
        """So many bytes, or none when the stream ends before. Raises OSError."""
        got = b""
        while len(got) < size:
            more = await self.read()
            if not more:
                return b""
            got += more
        self.said = got[size:] + self.said
        return got[:size]

    def send_at_once(self, said: bytes) -> bytes:
        """What could not be sent without waiting; an error is left for whoever has the socket next."""
        with suppress(OSError):
            return said[self.sock.send(said) :] if said else said
        return said

    async def send(self, said: bytes) -> None:
        """Raises OSError."""
        if said:
            await self._loop.sock_sendall(self.sock, said)

    def ear(self) -> Stream:
        """Another descriptor of the same socket: it can be read here while the socket is given to the relay."""
        ear = Stream(self.sock.dup(), self.turns)
        ear.said, self.said = self.said, b""
        return ear

    def is_quiet(self) -> bool:
        """Whether the other side has said nothing since, nor hung up."""
        try:
            self.sock.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
        except BlockingIOError:
            return True
        except OSError:
            pass
        return False

    async def is_spoken_to(self) -> bool:
        """True, when there is something to read. Reads nothing."""
        if not self.said and self.is_quiet():
            await until_readable(self.sock)
        return True

    def give(self) -> socket.socket:
        """The socket is somebody else's from now on; `close` and `reset` do nothing then."""
        return as_sockets({0: self.sock.detach()})[0]

    def close(self) -> None:
        self.sock.close()

    def reset(self) -> None:
        """Hangs up with a reset."""
        with suppress(OSError):
            self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.sock.close()

    async def part(self, last_words: bytes = b"") -> None:
        """Says something last and hangs up. A close with bytes unread would be a reset, and take the words along."""
        with suppress(OSError, TimeoutError):
            async with asyncio.timeout(LINGER_SECONDS):
                await self.send(last_words)
                self.sock.shutdown(socket.SHUT_WR)
                unread = 0
                while unread < LINGER_BYTES and (more := await self.read()):
                    unread += len(more)
        self.close()


# The loop is given numbers: for a socket object it would spell out a message about it first, and throw that away.


async def until_readable(*socks: socket.socket) -> None:
    """Until one of them has something to read, an end or an error. Nobody else may wait for it meanwhile."""
    loop = asyncio.get_running_loop()
    await _until(loop.add_reader, loop.remove_reader, *(each.fileno() for each in socks))


async def until_writable(sock: socket.socket) -> None:
    """Until it can be written to, or has an error; at once where it is so."""
    poller = select.poll()
    poller.register(sock, select.POLLOUT)
    if poller.poll(0):
        return
    loop = asyncio.get_running_loop()
    await _until(loop.add_writer, loop.remove_writer, sock.fileno())


async def _until(add: Callable[..., None], remove: Callable[[int], bool], *fds: int) -> None:
    waited: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    for fd in fds:
        add(fd, _mark, waited)
    try:
        await waited
    finally:
        for fd in fds:
            remove(fd)


def _mark(waited: asyncio.Future[None]) -> None:
    if not waited.done():
        waited.set_result(None)
