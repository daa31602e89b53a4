"""What a client sends first, read until it can be judged, and waited for no longer than is fair."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from pysandbox.gate.tcp.sniff import Sniffer, SniffResult, Way
from pysandbox.gate.tcp.stream import ClientStream

WORDS_SECONDS = 10.0  # from the first byte of a hello to its end
HOLD_SECONDS = 1.0  # that a first line which may become a request is waited for, before it goes ahead
AHEAD = SniffResult(Way.PASS, "not decided: it goes ahead")
LATE = SniffResult(Way.REFUSE, "the first words were not finished in time")


async def read_first_bytes(
    client: ClientStream, sniffer: Sniffer, goes_on: Callable[[], Awaitable[bool]]
) -> SniffResult | None:
    """The verdict on what the client sends first; None when it ends before. Silence may last; what has begun has to be
    whole in time. Only `goes_on` waits with a time limit; it reads nothing, so a timeout loses no bytes."""
    clock = asyncio.get_running_loop().time
    begun, until = 0.0, None
    while True:
        try:
            async with asyncio.timeout_at(until):
                if not await goes_on():
                    return None
        except TimeoutError:
            if sniffer.goes_ahead(late=True):
                return AHEAD
            if clock() >= begun + WORDS_SECONDS:
                return LATE
            until = begun + WORDS_SECONDS
            continue
        more = await client.read()
        verdict = sniffer.read(more) if more else sniffer.end()
        if verdict is not None:
            return verdict
        if sniffer.goes_ahead():
            return AHEAD
        begun = begun or clock()
        until = until or begun + min(HOLD_SECONDS, WORDS_SECONDS)
