"""The doors of a cage where connections arrive: one task for each of them, bounded, and ended with the cage.

A stranger's code is on the other end. What it can do is open connections, so they are counted for all doors of a cage
together: what is more than `most_streams` waits in the kernel's backlog until one of them has ended. Nothing that is
said on one ends the door.
"""

from __future__ import annotations

import asyncio
import resource
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
SHARE = 4  # a cage gets one part in so many of the descriptors that this process may have,
EACH = 3  # of which a stream needs as many: for the client, for the server, and while one of them is handed over
ACCEPTED_AT_ONCE = 16  # then those who are in have their turn
ACCEPT_PAUSE = 0.1  # seconds after an accept that failed for want of something

_slots: WeakKeyDictionary[Admission, asyncio.Semaphore] = WeakKeyDictionary()


async def serve(admission: Admission, kind: str, listener: socket.socket) -> None:
    """For ever; cancelled at the end, with all that has come in by it. `listener` is the caller's to close."""
    served = {"socks": serve_socks, "http": serve_http, "tcp": serve_transparent}[kind]
    slots = _slots.setdefault(admission, asyncio.Semaphore(most_streams()))
    tasks: set[asyncio.Task[None]] = set()
    listener.setblocking(False)
    try:
        while True:
            await slots.acquire()
            accepted = _accept(listener)
            if isinstance(accepted, OSError):  # this process has no descriptor left for now, or nobody is there
                slots.release()
                await (until_readable(listener) if _is_nobody(accepted) else asyncio.sleep(ACCEPT_PAUSE))
                continue
            client = Stream(accepted)
            task = asyncio.create_task(_served(served, admission, client))
            tasks.add(task)
            task.add_done_callback(partial(_over, tasks, client, slots))
            if len(tasks) % ACCEPTED_AT_ONCE == 0:
                await asyncio.sleep(0)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _accept(listener: socket.socket) -> socket.socket | OSError:
    try:
        return listener.accept()[0]
    except OSError as error:
        return error


def _is_nobody(error: OSError) -> bool:
    """Also of somebody who has gone before he was let in."""
    return isinstance(error, BlockingIOError | ConnectionAbortedError)


def most_streams() -> int:
    """What a program with few descriptors can spare: it has other cages, and itself, to think of."""
    return min(MOST_STREAMS, resource.getrlimit(resource.RLIMIT_NOFILE)[0] // SHARE // EACH)


async def _served(served: Callable[[Admission, Stream], Awaitable[None]], admission: Admission, client: Stream) -> None:
    with suppress(OSError):  # of the client's; what concerns a server was told where it happened
        await served(admission, client)


def _over(tasks: set[asyncio.Task[None]], client: Stream, slots: asyncio.Semaphore, task: asyncio.Task[None]) -> None:
    """Also of a task that was cancelled before it began."""
    tasks.discard(task)
    client.reset()  # whoever was parted from in peace is closed already
    slots.release()


async def serve_http(admission: Admission, client: Stream) -> None:
    from pysandbox.gate.forward import Forwarder

    tunnel = await Forwarder(admission, client).run()
    if tunnel is not None:
        await carry(admission, tunnel.target, client, tunnel.server, opaque=tunnel.opaque)
    else:
        await client.part()
