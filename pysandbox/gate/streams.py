"""The doors of a cage where connections arrive: one task for each of them, bounded, and ended with the cage.

A stranger's code is on the other end. What it can do is open connections, so they are counted for all doors of a cage
together: what is more than MOST_STREAMS, or than the cage's share of the host's descriptors, waits in the kernel's
backlog until one of them has ended. Nothing that is said on one ends the door.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from pysandbox.gate.carry import carry
from pysandbox.gate.socks_door import serve_socks
from pysandbox.gate.stream import Stream, until_readable
from pysandbox.gate.transparent import serve_transparent

if TYPE_CHECKING:
    from pysandbox.gate.admission import Admission

MOST_STREAMS = 1024  # of one cage, at all its doors
EACH = 3  # descriptors that a stream needs: for the client, for the server, and while one of them is handed over
ACCEPT_PAUSE = 0.1  # seconds after an accept that failed for want of something

_slots: WeakKeyDictionary[Admission, asyncio.Semaphore] = WeakKeyDictionary()


async def serve(admission: Admission, kind: str, listener: socket.socket) -> None:
    """For ever; cancelled at the end, with all that has come in by it. `listener` is the caller's to close."""
    served = {"socks": serve_socks, "http": serve_http, "tcp": serve_transparent}[kind]
    slots = _slots.setdefault(admission, asyncio.Semaphore(MOST_STREAMS))
    tasks: set[asyncio.Task[None]] = set()
    listener.setblocking(False)
    try:
        while True:
            await until_readable(listener)
            await admission.turns.take()
            leave = await _let_in(admission, slots)
            accepted = _accept(listener)
            if isinstance(accepted, OSError):  # this process has no descriptor left for now, or nobody is there
                leave()
                if not _is_nobody(accepted):
                    await asyncio.sleep(ACCEPT_PAUSE)
                continue
            client = Stream(accepted, admission.turns)
            task = asyncio.create_task(_served(served, admission, client))
            tasks.add(task)
            task.add_done_callback(partial(_over, tasks, client, leave))
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _let_in(admission: Admission, slots: asyncio.Semaphore) -> Callable[[], None]:
    """Returns when the cage may have one more; what it returns gives that back."""
    await slots.acquire()
    try:
        await admission.descriptors.room(EACH)
    except BaseException:
        slots.release()
        raise

    def leave() -> None:
        slots.release()
        admission.descriptors.give(EACH)

    return leave


def _accept(listener: socket.socket) -> socket.socket | OSError:
    """What is said in a few words goes out at once: Nagle's algorithm would wait for an acknowledgement, which whoever
    has nothing to answer yet keeps back for 40 ms."""
    try:
        accepted = listener.accept()[0]
        accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return accepted
    except OSError as error:
        return error


def _is_nobody(error: OSError) -> bool:
    """Also of somebody who has gone before he was let in."""
    return isinstance(error, BlockingIOError | ConnectionAbortedError)


async def _served(served: Callable[[Admission, Stream], Awaitable[None]], admission: Admission, client: Stream) -> None:
    with suppress(OSError):  # of the client's; what concerns a server was told where it happened
        await served(admission, client)


def _over(
    tasks: set[asyncio.Task[None]], client: Stream, leave: Callable[[], None], task: asyncio.Task[None]
) -> None:  # fmt: skip
    """Also of a task that was cancelled before it began."""
    tasks.discard(task)
    client.reset()  # whoever was parted from in peace is closed already
    leave()


async def serve_http(admission: Admission, client: Stream) -> None:
    from pysandbox.gate.forward import Forwarder

    tunnel = await Forwarder(admission, client).run()
    if tunnel is not None:
        await carry(admission, tunnel.target, client, tunnel.server, opaque=tunnel.opaque)
    else:
        await client.part()
