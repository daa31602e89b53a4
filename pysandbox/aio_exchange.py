"""`exchange.communicate` for the event loop: the same readers and writer, driven by its callbacks.

An output that somebody listens to is read by a task of its own, which waits for the listener before it reads on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from pysandbox.shapes import TYPE_CHECKING, Any, Protocol
from pysandbox.streams.aio_streams import set_ready
from pysandbox.streams.command_streams import CommandStreams, InputWriter, OutputReader

if TYPE_CHECKING:
    from pysandbox.process_state import ProcessState
    from pysandbox.streams.line_listener import LineListener


class Reporting(Protocol):
    """Who waits for the reports of a command (`aio.AsyncProcess`)."""

    async def next_report(self) -> None: ...


async def exchange(running: Reporting, state: ProcessState, data: bytes) -> None:
    """Returns when the command has ended; its output captured. Raises what a listener raises."""
    loop, streams = asyncio.get_running_loop(), state.streams
    readers, writer = streams.readers(), streams.writer(data)
    over: asyncio.Future[None] = loop.create_future()
    told = [loop.create_task(_tell(reader, reader.listener, over)) for reader in readers.values() if reader.listener]
    for reader in readers.values():
        if reader.listener is None:
            loop.add_reader(reader.fd, _read_some, loop, reader)
    if writer is not None:
        loop.add_writer(writer.fd, _write_some, loop, streams, writer)
    try:
        while state.ended is None:
            await _next_report(running, told)
            state.read_report()
        over.set_result(None)
        for task in told:
            await task
    finally:
        if streams.stdio.stdin >= 0:
            loop.remove_writer(streams.stdio.stdin)
        for reader in readers.values():
            loop.remove_reader(reader.fd)
        _give_up(told)
        streams.silence(readers)
        streams.store(readers)


async def _next_report(running: Reporting, told: Sequence[asyncio.Task[None]]) -> None:
    """Returns when there is one. Raises what a listener raised before."""
    if not told:
        return await running.next_report()
    report = asyncio.ensure_future(running.next_report())
    try:
        while not report.done():
            waiting = [task for task in told if not task.done()]
            await asyncio.wait((report, *waiting), return_when=asyncio.FIRST_COMPLETED)
            for task in told:
                if task.done():
                    task.result()
        report.result()
    finally:
        report.cancel()


def _give_up(told: Sequence[asyncio.Task[Any]]) -> None:
    for task in told:
        task.cancel()
        if task.done() and not task.cancelled():
            task.exception()  # one is raised already; nobody is to be told of another


async def _tell(reader: OutputReader, listener: LineListener, over: asyncio.Future[None]) -> None:
    """Reads one output, and tells it, until the command is over and what it left in the pipe is told, too."""
    while reader.open and not over.done():
        await _readable(reader.fd, over)
        reader.read()
        await listener.tell_and_wait()
    reader.read_available()
    listener.add(b"")  # something in the background may still hold it
    await listener.tell_and_wait()


async def _readable(fd: int, over: asyncio.Future[None]) -> None:
    """Waits until it can be read, or `over` is done. Whoever cancels this takes the descriptor from the loop: later its
    number may be another's."""
    loop = asyncio.get_running_loop()
    ready: asyncio.Future[None] = loop.create_future()

    def come(*_: object) -> None:
        set_ready(ready)

    loop.add_reader(fd, come)
    over.add_done_callback(come)
    await ready
    over.remove_done_callback(come)
    loop.remove_reader(fd)


def _read_some(loop: asyncio.AbstractEventLoop, reader: OutputReader) -> None:
    if not reader.read() and not reader.open:
        loop.remove_reader(reader.fd)


def _write_some(loop: asyncio.AbstractEventLoop, streams: CommandStreams, writer: InputWriter) -> None:
    if not writer.write():
        loop.remove_writer(writer.fd)
        streams.close_stdin()
