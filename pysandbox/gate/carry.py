"""A connection that was let through, from its first bytes to its end: who handles it, and that it can be cut.

`carry` is the one place where that is decided. Today a stream is relayed, or forwarded request by request where it is
plain HTTP; an inspecting relay would be a third way, for hosts whose `Decision.inspect` asks for it.

A client that speaks first is heard before a byte of it is passed on. Where the server speaks first, its words flow at
once, and the client's wait in the relay until they were heard; and where the client's cannot be judged yet but begin no
request that anybody knows, they flow as they come and are looked at on (`Sniffer.goes_ahead`). So no protocol is held
up, and none can be used to slip a name past.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from pysandbox.gate.dial import Denied, Target
from pysandbox.gate.rules import Decision
from pysandbox.gate.sniff import Sniffer, Verdict, Way
from pysandbox.gate.stream import Stream, until_readable

if TYPE_CHECKING:
    from pysandbox.gate.admission import Admission

WORDS_SECONDS = 10.0  # from the first byte of a hello to its end
HOLD_SECONDS = 1.0  # that a first line which may become a request is waited for, before it goes ahead
AHEAD = Verdict(Way.PASS, "not decided: it goes ahead")
LATE = Verdict(Way.REFUSE, "the first words were not finished in time")


async def carry(admission: Admission, target: Target, client: Stream, server: Stream, *, opaque: bool = False) -> None:
    """Until both have ended, or it was cut: by `admission.cut`, or by cancelling this. Owns `server`, and uses up
    `client`. `opaque`: its first bytes were looked at before. Raises OSError."""
    task = asyncio.current_task()
    assert task is not None
    try:
        held = admission.hold(target, server.sock, task.cancel)
    except (Denied, OSError):  # or the server has hung up already
        server.reset()
        client.reset()
        return
    carried = _Carried(admission, target, client, server, held)
    try:
        await (carried.pass_on() if opaque else carried.run())
    except asyncio.CancelledError:
        admission.release(held)
        server.reset()
        raise
    finally:
        admission.release(held)
        carried.end()
        server.close()


class _Carried:
    def __init__(self, admission: Admission, target: Target, client: Stream, server: Stream, held: int) -> None:
        self._admission, self._target, self._client, self._server = admission, target, client, server
        self._held = held
        self._over: asyncio.Future[Any] = admission.loop.create_future()
        self._number = 0

    async def run(self) -> None:
        sniffer = Sniffer(self._target, lambda name, port: self._admission.rules.name(name, port).allowed)
        verdict = await _hear(self._client, sniffer, self._client_is_first)
        if verdict is None or verdict is AHEAD:
            await self._flow(sniffer, verdict is AHEAD)
        else:
            await self._follow(verdict, bytes(sniffer.said))

    async def pass_on(self) -> None:
        """What the client has said, and everything after it."""
        said, self._client.said = self._client.said, b""
        self._splice(self._server.send_at_once(said))
        await asyncio.shield(self._over)

    def end(self) -> None:
        """Cuts what is still relayed."""
        if self._number and not self._over.done():
            self._admission.relay.cut(self._number)

    async def _client_is_first(self) -> bool:
        """Waits for either to speak; the client is heard first where both have."""
        if self._client.said or not self._client.is_quiet():
            return True
        await until_readable(self._client.sock, self._server.sock)
        return not self._client.is_quiet()

    async def _flow(self, sniffer: Sniffer, ahead: bool) -> None:
        """The server's words flow; the client's, once they are heard, or as they come where they go `ahead`. No HTTP
        server speaks first."""
        ear = self._client.ear()
        passed = bytes(sniffer.said) if ahead else b""
        self._splice(passed, hold=True)
        hearing = asyncio.create_task(self._hear_on(ear, sniffer, len(passed)))
        try:
            await _first_of(hearing, self._over)
            if self._over.done():
                return
            verdict, heard = await hearing
        finally:
            hearing.cancel()
            await asyncio.gather(hearing, return_exceptions=True)
            ear.close()
        if verdict.way is Way.PASS:
            self._admission.relay.release(self._number, bytes(sniffer.said[heard:]))
            await asyncio.shield(self._over)
        else:
            in_pieces = "HTTP whose first line came in pieces" if heard else "HTTP to a server that has spoken first"
            self._deny(verdict.why or in_pieces)

    async def _hear_on(self, ear: Stream, sniffer: Sniffer, passed: int) -> tuple[Verdict, int]:
        """The verdict, and how many bytes have gone ahead of it."""
        while (verdict := await _hear(ear, sniffer, ear.is_spoken_to)) is AHEAD:
            self._admission.relay.say(self._number, bytes(sniffer.said[passed:]))
            passed = len(sniffer.said)
        return verdict or LATE, passed

    async def _follow(self, verdict: Verdict, said: bytes) -> None:
        self._client.said = said
        if verdict.way is Way.PASS:
            await self.pass_on()
        elif verdict.way is Way.HTTP:
            await self._forward()
        else:
            self._deny(verdict.why)
            if verdict.answer:
                await self._client.part(verdict.answer)
            self._client.reset()

    async def _forward(self) -> None:
        from pysandbox.gate.forward import Forwarder

        tunnel = await Forwarder(self._admission, self._client, (self._target, self._server)).run()
        if tunnel is None:
            await self._client.part()
        else:
            await self.pass_on()

    def _deny(self, why: str) -> None:
        self._admission.ledger.denied("tcp", *self._target, Decision(False, why, ""))

    def _splice(self, said: bytes = b"", *, hold: bool = False) -> None:
        def ended(spliced: object) -> None:
            if not self._over.done():
                self._over.set_result(spliced)

        def hand_over() -> int:
            client, server = self._client.give(), self._server.give()
            return int(
                self._admission.relay.splice(
                    client, server, self._target, ended, hold=hold, said=said, cage=self._admission.number
                )
            )

        self._number = self._admission.splice(self._held, hand_over)


async def _hear(ear: Stream, sniffer: Sniffer, goes_on: Callable[[], Awaitable[bool]]) -> Verdict | None:
    """The verdict; None when it does not go on. Silence may last; what has begun has to come to a point. What waits
    with a time is `goes_on`, which reads nothing, so nothing that was read is lost."""
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
        more = await ear.read()
        verdict = sniffer.hear(more) if more else sniffer.end()
        if verdict is not None:
            return verdict
        if sniffer.goes_ahead():
            return AHEAD
        begun = begun or clock()
        until = until or begun + min(HOLD_SECONDS, WORDS_SECONDS)


async def _first_of(*waited: asyncio.Future[Any]) -> None:
    await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
