"""The SOCKS door: the conversation of socks.py, up to a connection that is carried on."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from pysandbox.gate import socks
from pysandbox.gate.carry import carry
from pysandbox.gate.dial import Denied, Target, Unreachable, dial, target_of
from pysandbox.gate.rules import Decision
from pysandbox.gate.stream import Stream

if TYPE_CHECKING:
    from pysandbox.gate.admission import Admission

HANDSHAKE_SECONDS = 10.0
REPLIES = {
    errno.ENETUNREACH: socks.NETWORK_UNREACHABLE,
    errno.EHOSTUNREACH: socks.HOST_UNREACHABLE,
    errno.ETIMEDOUT: socks.HOST_UNREACHABLE,
    errno.ECONNREFUSED: socks.REFUSED,
}

T = TypeVar("T")


async def serve_socks(admission: Admission, client: Stream) -> None:
    """Raises OSError of the client's."""
    try:
        async with asyncio.timeout(HANDSHAKE_SECONDS):
            request = await _asked(client)
    except TimeoutError:
        return
    except socks.Refused as refused:
        if refused.shown:
            admission.ledger.denied("tcp", refused.shown, refused.port, Decision(False, refused.why, ""))
        await client.part(refused.answer)
        return
    target = target_of(admission, request.host, request.port)
    try:
        server = Stream(await dial(admission, target), admission.turns)
    except (Denied, Unreachable) as error:
        code = socks.NOT_ALLOWED if isinstance(error, Denied) else REPLIES.get(error.errno or 0, socks.FAILED)
        await client.part(socks.reply(code))
        return
    await _go_on(admission, target, client, server)


async def _asked(client: Stream) -> socks.Request:
    """Raises socks.Refused, OSError."""
    greeting = await _whole(client, socks.read_greeting)
    client.said = client.said[greeting.size :]
    await client.send(socks.ACCEPTED)
    request = await _whole(client, socks.read_request)
    client.said = client.said[request.size :]
    return request


async def _whole(client: Stream, read: Callable[[bytes], T | None]) -> T:
    """What is read of all that was said, as soon as that is enough; `said` stays."""
    said = client.said
    while (found := read(said)) is None:
        client.said = b""
        if not (more := await client.read()):
            raise ConnectionError("the client hung up in the middle of a handshake")
        said += more
    client.said = said
    return found


async def _go_on(admission: Admission, target: Target, client: Stream, server: Stream) -> None:
    try:
        await client.send(socks.reply(socks.SUCCEEDED))
    except BaseException:
        server.close()
        raise
    await carry(admission, target, client, server)
