"""The host's ends of a command's pipes under asyncio, as asyncio's own streams are used.

They watch the descriptor only while somebody waits, so that `AsyncProcess.communicate` finds it free, and buffer no
more than was asked for and one read.
"""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import Callable, Iterable
from contextlib import suppress

from pysandbox.result import Output
from pysandbox.shapes import TYPE_CHECKING, Any, Generic, Self, cast
from pysandbox.streams.text_streams import Unread

if TYPE_CHECKING:
    from pysandbox.command import TextCoding

READ_SIZE = 65536


class AsyncReader(Generic[Output]):
    """A pipe to read: one task at a time, to the end of file, which is nothing (b"" or "")."""

    def __init__(self, fd: int, coding: TextCoding | None = None) -> None:
        os.set_blocking(fd, False)
        self._fd = fd
        self.unread = Unread(coding)

    async def read(self, size: int = -1) -> Output:
        """At most `size` bytes (or letters), as soon as there are any; all to the end where it is negative."""
        while not self.unread.ended and (size < 0 or (size and not self.unread)):
            await self._more()
        return self._of(self.unread.take(size))

    async def readexactly(self, size: int) -> Output:
        """Raises asyncio.IncompleteReadError at an earlier end."""
        while not self.unread.ended and self.unread.count() < size:
            await self._more()
        if self.unread.count() < size:
            raise asyncio.IncompleteReadError(cast(Any, self.unread.take()), size)
        return self._of(self.unread.take(size))

    async def readline(self) -> Output:
        """To the end of a line, or of the file; a line of any length."""
        while (line := self.unread.line()) is None:
            await self._more()
        return self._of(line)

    def at_eof(self) -> bool:
        return self.unread.ended and not self.unread

    def _of(self, taken: bytes | str) -> Output:
        return cast(Any, taken)  # type: ignore[no-any-return]

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Output:
        line = await self.readline()
        if not line:
            raise StopAsyncIteration
        return line

    def fileno(self) -> int:
        return self._fd

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
            self.unread.add(chunk)
            return


class AsyncWriter(Generic[Output]):
    """A pipe to write: `write` never waits, `drain` until it is written."""

    def __init__(self, fd: int, close: Callable[[], None], coding: TextCoding | None = None) -> None:
        os.set_blocking(fd, False)
        self._fd, self._close = fd, close
        self._encoder = coding.encoder() if coding is not None else None
        self._left = bytearray()
        self._closing = self._watched = False
        self._error: OSError | None = None
        self._waiting: list[asyncio.Future[None]] = []

    def write(self, data: Output) -> None:
        if self._closing:
            raise ValueError("write to a closed pipe")
        if isinstance(data, str) is not (self._encoder is not None):
            wanted = "bytes" if self._encoder is None else "text"
            raise TypeError(f"this stream is of {wanted}, not of {type(data).__name__}; spawn(text=) says which")
        given: Any = data
        self._left += given if self._encoder is None else self._encoder.encode(given)
        self._flush()

    def writelines(self, lines: Iterable[Output]) -> None:
        for line in lines:
            self.write(line)

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
            set_ready(each)


async def readable(fd: int) -> None:
    loop = asyncio.get_running_loop()
    ready = loop.create_future()
    loop.add_reader(fd, set_ready, ready)
    try:
        await ready
    finally:
        loop.remove_reader(fd)


def set_ready(ready: asyncio.Future[None]) -> None:
    if not ready.done():
        ready.set_result(None)
