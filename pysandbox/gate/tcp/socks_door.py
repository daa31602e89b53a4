"""The SOCKS door: the messages of socks.py, up to a connection that is proxied."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Awaitable, Callable

from pysandbox.gate.rules import Decision
from pysandbox.gate.tcp import socks
from pysandbox.gate.tcp.proxying import proxy_connection
from pysandbox.gate.tcp.stream import ClientStream
from pysandbox.gate.tcp.target import Denied, DialTarget, Unreachable
from pysandbox.shapes import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from pysandbox.gate.doors import DoorSession

HANDSHAKE_SECONDS = 10.0
REPLIES = {
    errno.ENETUNREACH: socks.NETWORK_UNREACHABLE,
    errno.EHOSTUNREACH: socks.HOST_UNREACHABLE,
    errno.ETIMEDOUT: socks.HOST_UNREACHABLE,
    errno.ECONNREFUSED: socks.REFUSED,
}

T = TypeVar("T")


async def serve_socks(session: DoorSession, client: ClientStream) -> None:
    """Raises OSError of the client's."""
    await _serve(session, client, _asked)


async def serve_greeted(session: DoorSession, client: ClientStream) -> None:
    """One whose greeting was answered. Raises OSError of the client's."""
    await _serve(session, client, _request)


async def _serve(
    session: DoorSession, client: ClientStream, read: Callable[[ClientStream], Awaitable[socks.Request]]
) -> None:
    try:
        async with asyncio.timeout(HANDSHAKE_SECONDS):
            request = await read(client)
    except TimeoutError:
        return
    except socks.SocksRefused as refused:
        if refused.shown:
            session.ledger.denied("tcp", refused.shown, refused.port, Decision(False, refused.why, ""))
        await client.close_gracefully(refused.answer)
        return
    try:
        target, server = await session.dial(DialTarget(str(request.host), request.port))
    except (Denied, Unreachable) as error:
        code = socks.NOT_ALLOWED if isinstance(error, Denied) else REPLIES.get(error.errno or 0, socks.FAILED)
        await client.close_gracefully(socks.reply(code))
        return
    await _go_on(session, target, client, ClientStream(server, session.turns))


async def _asked(client: ClientStream) -> socks.Request:
    """Raises socks.SocksRefused, OSError."""
    greeting = await _whole(client, socks.read_greeting)
    client.said = client.said[greeting.size :]
    await client.send(socks.ACCEPTED)
    return await _request(client)


async def _request(client: ClientStream) -> socks.Request:
    """Raises socks.SocksRefused, OSError."""
    request = await _whole(client, socks.read_request)
    client.said = client.said[request.size :]
    return request


async def _whole(client: ClientStream, read: Callable[[bytes], T | None]) -> T:
    """What `read` makes of the bytes as soon as they are enough; all of them stay in `said`."""
    said = client.said
    while (found := read(said)) is None:
        client.said = b""
        if not (more := await client.read()):
            raise ConnectionError("the client hung up in the middle of a handshake")
        said += more
    client.said = said
    return found


async def _go_on(session: DoorSession, target: DialTarget, client: ClientStream, server: ClientStream) -> None:
    try:
        await client.send(socks.reply(socks.SUCCEEDED))
    except BaseException:
        server.close()
        raise
    await proxy_connection(session, target, client, server)
