"""A connected socket in the gatekeeper's loop: reading, writing, and the ways to hang up.

What was read too far is put back into `said`. The socket is this object's, until `detach` gives it away.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Callable
from contextlib import suppress

from pysandbox.descriptors.polling import is_writable
from pysandbox.gate.published.inside import as_sockets
from pysandbox.shapes import TYPE_CHECKING

if TYPE_CHECKING:
    from pysandbox.gate.turns import LoopTurns

READ_AT_ONCE = 65536
LINGER_SECONDS = 1.0  # for a client to read the last words before it is hung up on
LINGER_BYTES = 1 << 20


class ClientStream:
    """`turns` are those of the cage that it is for, whichever side it speaks to."""

    def __init__(self, sock: socket.socket, turns: LoopTurns) -> None:
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
        """Sends without waiting; returns what could not be sent. An error is left for the next user of the socket."""
        with suppress(OSError):
            return said[self.sock.send(said) :] if said else said
        return said

    async def send(self, said: bytes) -> None:
        """Raises OSError."""
        if said:
            await self._loop.sock_sendall(self.sock, said)

    def dup_reader(self) -> ClientStream:
        """Another descriptor of this socket: it can be read here while the relay has the socket."""
        reader = ClientStream(self.sock.dup(), self.turns)
        reader.said, self.said = self.said, b""
        return reader

    async def is_first(self, server: ClientStream) -> bool:
        """Waits until either side has sent something; True where this one, the client, has, even if both have."""
        if self.said or not self.is_quiet():
            return True
        await until_readable(self.sock, server.sock)
        return not self.is_quiet()

    def is_quiet(self) -> bool:
        """Whether the other side has neither sent anything nor closed."""
        try:
            self.sock.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
        except BlockingIOError:
            return True
        except OSError:
            pass
        return False

    async def is_spoken_to(self) -> bool:
        """Waits until there is something to read; returns True. Reads nothing."""
        if not self.said and self.is_quiet():
            await until_readable(self.sock)
        return True

    def detach(self) -> socket.socket:
        """Gives the socket away: the caller owns it now, and `close` and `reset` do nothing any more."""
        return as_sockets({0: self.sock.detach()})[0]

    def close(self) -> None:
        self.sock.close()

    def reset(self) -> None:
        """Hangs up with a reset."""
        with suppress(OSError):
            self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.sock.close()

    async def close_gracefully(self, last_words: bytes = b"") -> None:
        """Sends a last message and closes. A close with bytes unread would be a reset, and could lose the message."""
        with suppress(OSError, TimeoutError):
            async with asyncio.timeout(LINGER_SECONDS):
                await self.send(last_words)
                self.sock.shutdown(socket.SHUT_WR)
                unread = 0
                while unread < LINGER_BYTES and (more := await self.read()):
                    unread += len(more)
        self.close()


# The loop is given descriptors: for a socket object it would format an error message first, and throw it away.


async def until_readable(*socks: socket.socket) -> None:
    """Waits until one of them has something to read, an end or an error. No other task may wait for it meanwhile."""
    loop = asyncio.get_running_loop()
    await _until(loop.add_reader, loop.remove_reader, *(each.fileno() for each in socks))


async def until_writable(sock: socket.socket) -> None:
    """Waits until it can be written to, or has an error; returns at once where that is so."""
    if is_writable(sock):
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
