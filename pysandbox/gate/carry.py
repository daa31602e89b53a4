"""A connection that was let through, from its first bytes to its end: who handles it, and that it can be cut.

`carry` is the one place where that is decided. Today a stream is relayed, or forwarded request by request where it is
plain HTTP; an inspecting relay would be a third way, for hosts whose `Decision.inspect` asks for it.

A client that speaks first is heard before a byte of it is passed on. Where the server speaks first, its words flow at
once, and the client's wait in the relay until they were heard. So no protocol is delayed, and none can be used to slip
a name past.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from pysandbox.gate.dial import Denied, Target
from pysandbox.gate.rules import Decision
from pysandbox.gate.sniff import Sniffer, Verdict, Way
from pysandbox.gate.stream import Stream

if TYPE_CHECKING:
    from pysandbox.gate.admission import Admission

WORDS_SECONDS = 10.0  # from the first byte of a hello or a first line to its end


async def carry(admission: Admission, target: Target, client: Stream, server: Stream, *, opaque: bool = False) -> None:
    """Until both have ended, or it was cut: by `admission.cut`, or by cancelling this. Owns `server`, and uses up
    `client`. `opaque`: its first bytes were looked at before. Raises OSError."""
    task = asyncio.current_task()
    assert task is not None
    try:
        held = admission.hold(target, server.sock, task.cancel)
    except Denied:
        server.reset()
        client.reset()
        return
    carried = _Carried(admission, target, client, server)
    try:
        await (carried.pass_on() if opaque else carried.run())
    except asyncio.CancelledError:
        server.reset()
        raise
    finally:
        admission.release(held)
        carried.end()
        server.close()


class _Carried:
    def __init__(self, admission: Admission, target: Target, client: Stream, server: Stream) -> None:
        self._admission, self._target, self._client, self._server = admission, target, client, server
        self._over: asyncio.Future[Any] = admission.loop.create_future()
        self._number = 0

    async def run(self) -> None:
        ear = self._client.ear()
        sniffer = Sniffer(self._target, lambda name, port: self._admission.rules.name(name, port).allowed)
        hearing = asyncio.create_task(_hear(ear, sniffer))
        try:
            if await self._server_is_first(hearing):
                await self._flow(hearing, ear)
            else:
                await self._follow(*await hearing, ear)
        finally:
            hearing.cancel()
            await asyncio.gather(hearing, return_exceptions=True)
            ear.close()

    async def pass_on(self) -> None:
        """What the client has said, and everything after it."""
        said, self._client.said = self._client.said, b""
        self._splice()
        await self._release(said)

    def end(self) -> None:
        """Cuts what is still relayed."""
        if self._number and not self._over.done():
            self._admission.relay.cut(self._number)

    async def _server_is_first(self, hearing: asyncio.Task[tuple[Verdict, bytes]]) -> bool:
        speaks = self._server.readable()
        try:
            await _first_of(hearing, speaks)
            return not hearing.done()
        finally:
            self._server.unwatch(speaks)

    async def _flow(self, hearing: asyncio.Task[tuple[Verdict, bytes]], ear: Stream) -> None:
        """The server's words flow; the client's, once they are heard. No HTTP server speaks first."""
        self._splice()
        await _first_of(hearing, self._over)
        if self._over.done():
            return
        verdict, said = await hearing
        ear.close()
        if verdict.way is Way.PASS:
            await self._release(said)
        else:
            self._deny(verdict.why or "HTTP to a server that has spoken first")

    async def _follow(self, verdict: Verdict, said: bytes, ear: Stream) -> None:
        ear.close()
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

    def _splice(self) -> None:
        def ended(spliced: object) -> None:
            if not self._over.done():
                self._over.set_result(spliced)

        relay = self._admission.relay
        self._number = relay.splice(self._client.give(), self._server.give(), self._target, ended, hold=True)

    async def _release(self, said: bytes) -> None:
        self._admission.relay.release(self._number, said)
        await asyncio.shield(self._over)


async def _hear(ear: Stream, sniffer: Sniffer) -> tuple[Verdict, bytes]:
    """The verdict, and all that was said up to it. Silence may last; what has begun has to come to a point."""
    async with asyncio.timeout(None) as patience:
        try:
            while True:
                more = await ear.read()
                verdict = sniffer.hear(more) if more else sniffer.end()
                if verdict is not None:
                    return verdict, bytes(sniffer.said)
                if patience.when() is None:
                    patience.reschedule(asyncio.get_running_loop().time() + WORDS_SECONDS)
        except TimeoutError:
            return Verdict(Way.REFUSE, "the first words were not finished in time"), b""


async def _first_of(*waited: asyncio.Future[Any]) -> None:
    await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
