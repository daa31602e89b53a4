"""The doors of a cage where connections arrive: one task for each of them, bounded, and ended with the cage.

The client is not trusted. It can open connections without end, so they are counted for all doors of a cage together:
what is more than MOST_STREAMS, or than the cage's share of the host's descriptors, waits in the kernel's backlog until
one of them has ended. Nothing that is sent on one ends the door.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from functools import partial
from weakref import WeakKeyDictionary

from pysandbox.gate.askers import serve_for
from pysandbox.gate.handed import receive
from pysandbox.gate.tcp.offered import OfferedClients, Serve
from pysandbox.gate.tcp.passing import PassedClients
from pysandbox.gate.tcp.proxying import proxy_connection
from pysandbox.gate.tcp.socks_door import serve_socks
from pysandbox.gate.tcp.stream import ClientStream
from pysandbox.gate.tcp.transparent import peer_of, serve_transparent
from pysandbox.shapes import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pysandbox.gate.doors import DoorSession

MOST_STREAMS = 1024  # of one cage, at all its doors
EACH = 3  # descriptors that a stream needs: for the client, for the server, and while one of them is handed over
ACCEPT_PAUSE = 0.1  # seconds after an accept that failed for want of something

# A session that is gone takes its slots along; a forked copy of the process has sessions of its own, or serves none.
_slots: WeakKeyDictionary[DoorSession, asyncio.Semaphore] = WeakKeyDictionary()


async def serve(session: DoorSession, kind: str, listener: socket.socket) -> None:
    """Serves a door until it is cancelled, or nobody can come any more; that ends every connection of the door. The
    caller closes `listener`."""
    served = {"socks": serve_socks, "http": serve_http, "tcp": serve_transparent}[kind]
    slots = _slots.setdefault(session, asyncio.Semaphore(MOST_STREAMS))
    tasks: set[asyncio.Task[None]] = set()

    def begin(serving: Coroutine[Any, Any, None], client: ClientStream, leave: Callable[[], object]) -> None:
        tasks.add(task := asyncio.create_task(serving))
        task.add_done_callback(partial(_over, tasks, client, leave))

    def serve_one(client: ClientStream, leave: Callable[[], object], serve: Serve | None = None) -> None:
        begin(_served_in_a_slot(slots, serve or served, session, client), client, leave)

    offered = OfferedClients(session, kind, serve_one)
    passing = PassedClients(session, serve_one, offered) if kind == "tcp" else offered
    take = partial(_take, passing, serve_one)
    at_once = partial(_at_once, session, listener, slots, take)
    listener.setblocking(False)
    if listener.family == socket.AF_INET:
        offered.learn_at(listener, EACH, slots.locked, take)
    try:
        while True:
            await _until_readable(listener, at_once)
            await session.turns.take()
            leave = await _let_in(session, slots)
            accepted = _accept(listener)
            if isinstance(accepted, OSError):  # this process has no descriptor left for now, or nobody is there
                leave()
                if isinstance(accepted, ConnectionResetError):  # of a door where connections are handed over: its end
                    return
                if not _is_nobody(accepted):
                    await asyncio.sleep(ACCEPT_PAUSE)
                continue
            client = ClientStream(accepted, session.turns)
            begin(_served(served, session, client), client, leave)
    finally:
        passing.end()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _until_readable(listener: socket.socket, at_once: Callable[[], bool]) -> None:
    """Returns when somebody waits whom `at_once` does not serve."""
    loop = asyncio.get_running_loop()
    waited: asyncio.Future[None] = loop.create_future()

    def readable() -> None:
        if not waited.done() and not at_once():
            waited.set_result(None)

    loop.add_reader(listener.fileno(), readable)
    try:
        await waited
    finally:
        loop.remove_reader(listener.fileno())


def _at_once(
    session: DoorSession, listener: socket.socket, slots: asyncio.Semaphore,
    take: Callable[[ClientStream, Callable[[], object]], None],
) -> bool:  # fmt: skip
    """Accepts one connection where nothing has to be waited for; whether it did. It is passed on, or served."""
    if slots.locked() or not session.turns.now() or not session.descriptors.take(EACH):
        return False
    leave = partial(session.descriptors.give, EACH)
    accepted = _accept(listener)
    if isinstance(accepted, OSError):
        leave()
        return _is_nobody(accepted)
    take(ClientStream(accepted, session.turns), leave)
    return True


def _take(
    passing: PassedClients | OfferedClients, serve_one: Callable[[ClientStream, Callable[[], object]], None],
    client: ClientStream, leave: Callable[[], object],
) -> None:  # fmt: skip
    if not passing.takes(client, leave):
        serve_one(client, leave)


async def _let_in(session: DoorSession, slots: asyncio.Semaphore) -> Callable[[], None]:
    """Waits until the cage may have one more stream; returns the call that gives it back."""
    await slots.acquire()
    try:
        await session.descriptors.room(EACH)
    except BaseException:
        slots.release()
        raise

    def leave() -> None:
        slots.release()
        session.descriptors.give(EACH)

    return leave


def _accept(listener: socket.socket) -> socket.socket | OSError:
    """Accepts a connection, or returns the error. Small messages are sent at once (TCP_NODELAY): Nagle's algorithm
    would wait for an acknowledgement, which a peer with nothing to send delays for 40 ms."""
    try:
        accepted = receive(listener) if listener.family == socket.AF_UNIX else listener.accept()[0]
        accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return accepted
    except OSError as error:
        return error


def _is_nobody(error: OSError) -> bool:
    """Whether there is no connection to accept: nobody waits, or the client went away before it was accepted."""
    return isinstance(error, BlockingIOError | ConnectionAbortedError)


async def _served(
    served: Callable[[DoorSession, ClientStream], Awaitable[None]], session: DoorSession, client: ClientStream
) -> None:
    serve_for(partial(peer_of, client.sock))
    with suppress(OSError):  # of the client's; what concerns a server was told where it happened
        await served(session, client)


async def _served_in_a_slot(
    slots: asyncio.Semaphore, served: Callable[[DoorSession, ClientStream], Awaitable[None]], session: DoorSession,
    client: ClientStream,
) -> None:  # fmt: skip
    async with slots:
        await _served(served, session, client)


def _over(
    tasks: set[asyncio.Task[None]], client: ClientStream, leave: Callable[[], object], task: asyncio.Task[None]
) -> None:  # fmt: skip
    """A done callback, because it runs even for a task that was cancelled before it began."""
    tasks.discard(task)
    client.reset()  # whoever was parted from in peace is closed already
    leave()


async def serve_http(session: DoorSession, client: ClientStream) -> None:
    from pysandbox.gate.http.forward import Forwarder

    tunnel = await Forwarder(session, client).run()
    if tunnel is not None:
        await proxy_connection(
            session, tunnel.target, client, tunnel.server, opaque=tunnel.opaque, proxied=tunnel.proxied
        )
    else:
        await client.close_gracefully()
