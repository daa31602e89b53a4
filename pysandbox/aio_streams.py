"""The host's ends of a command's pipes under asyncio, as asyncio's own streams are used.

They watch the descriptor only while somebody waits, so that `AsyncProcess.communicate` finds it free, and buffer no
more than was asked for and one read.
"""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import Callable
from contextlib import suppress
from typing import Self

READ_SIZE = 65536


class AsyncReader:
    """A pipe to read: one task at a time, to the end of file, which is b""."""

    def __init__(self, fd: int) -> None:
        os.set_blocking(fd, False)
        self._fd = fd
        self._kept = bytearray()
        self._ended = False

    async def read(self, size: int = -1) -> bytes:
        """At most `size` bytes, as soon as there are any; all to the end where it is negative."""
        while not self._ended and (size < 0 or (size and not self._kept)):
            await self._more()
        return self._take(len(self._kept) if size < 0 else size)

    async def readexactly(self, size: int) -> bytes:
        """Raises asyncio.IncompleteReadError at an earlier end."""
        while not self._ended and len(self._kept) < size:
            await self._more()
        if len(self._kept) < size:
            raise asyncio.IncompleteReadError(self._take(size), size)
        return self._take(size)

    async def readline(self) -> bytes:
        """To the end of a line, or of the file; a line of any length."""
        seen = 0
        while (at := self._kept.find(b"\n", seen)) < 0 and not self._ended:
            seen = len(self._kept)
            await self._more()
        return self._take(at + 1 if at >= 0 else len(self._kept))

    def at_eof(self) -> bool:
        return self._ended and not self._kept

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        line = await self.readline()
        if not line:
            raise StopAsyncIteration
        return line

    def fileno(self) -> int:
        return self._fd

    def rest(self) -> bytes:
        """What was read and not asked for yet; it is gone from here."""
        return self._take(len(self._kept))

    def _take(self, size: int) -> bytes:
        taken = bytes(self._kept[:size])
        del self._kept[:size]
        return taken

    async def _more(self) -> None:
        while True:
            try:
                chunk = os.read(self._fd, READ_SIZE)
            except BlockingIOError:
                await readable(self._fd)
                continue
            except OSError as error:
                if error.errno != errno.EIO:  # the other end of a terminal is gone
                    raise
                chunk = b""
            self._ended = not chunk
            self._kept += chunk
            return


class AsyncWriter:
    """A pipe to write: `write` never waits, `drain` until it is written."""

    def __init__(self, fd: int, close: Callable[[], None]) -> None:
        os.set_blocking(fd, False)
        self._fd, self._close = fd, close
        self._left = bytearray()
        self._closing = self._watched = False
        self._error: OSError | None = None
        self._waiting: list[asyncio.Future[None]] = []

    def write(self, data: bytes) -> None:
        if self._closing:
            raise ValueError("write to a closed pipe")
        self._left += data
        self._flush()

    async def drain(self) -> None:
        """Raises BrokenPipeError when the command reads no more."""
        if self._left:
            waiting = asyncio.get_running_loop().create_future()
            self._waiting.append(waiting)
            await waiting
        if self._error is not None:
            raise self._error

    def close(self) -> None:
        """After what was written so far; idempotent, and does not wait."""
        if not self._closing:
            self._closing = True
            self._flush()

    def is_closing(self) -> bool:
        return self._closing

    async def wait_closed(self) -> None:
        with suppress(OSError):
            await self.drain()

    def fileno(self) -> int:
        return self._fd

    def rest(self) -> bytes:
        """What was not written yet; it is gone from here."""
        self.forget()
        left, self._left = bytes(self._left), bytearray()
        return left

    def _flush(self) -> None:
        try:
            while self._left:
                del self._left[: os.write(self._fd, self._left)]
        except BlockingIOError:
            if not self._watched:
                self._watched = True
                asyncio.get_running_loop().add_writer(self._fd, self._flush)
            return
        except OSError as error:
            self._error = error
            self._left.clear()
        self.forget()
        if self._closing:
            self._close()

    def forget(self) -> None:
        """Nothing is watched any more, and nobody waits."""
        if self._watched:
            self._watched = False
            asyncio.get_running_loop().remove_writer(self._fd)
        waiting, self._waiting = self._waiting, []
        for each in waiting:
            settle(each)


async def readable(fd: int) -> None:
    loop = asyncio.get_running_loop()
    ready = loop.create_future()
    loop.add_reader(fd, settle, ready)
    try:
        await ready
    finally:
        loop.remove_reader(fd)


def settle(ready: asyncio.Future[None]) -> None:
    if not ready.done():
        ready.set_result(None)
