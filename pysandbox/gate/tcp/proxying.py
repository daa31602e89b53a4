"""A connection that was let through, from its first bytes to its end: who handles it, and that it can be cut.

`proxy_connection` is the one place where that is decided. A stream is relayed, or forwarded request by request where
it is plain HTTP; to a host with a contract, it is the inspector's (`inspected`).

What a client sends first is read and judged before a byte of it is passed on. Where the server sends first, its bytes
are passed on at once, and the client's wait in the relay until they are judged. Where they cannot be judged yet but
begin no known request, they are passed on as they come, and read on (`Sniffer.goes_ahead`). So no protocol is held up,
and none can be used to slip a name past. After a TLS hello the server's first words are looked at too: it may ask for a
second hello, which could name another host (`second_hello`).
"""

from __future__ import annotations

import asyncio
from functools import partial

from pysandbox.gate.rules import Decision
from pysandbox.gate.tcp.first_bytes import AHEAD, LATE, WORDS_SECONDS, read_first_bytes
from pysandbox.gate.tcp.second_hello import AnswerReader, SecondHello
from pysandbox.gate.tcp.sni import NotTls
from pysandbox.gate.tcp.sniff import UNRECOGNIZED_NAME, Sniffer, SniffResult, Way
from pysandbox.gate.tcp.stream import ClientStream
from pysandbox.gate.tcp.target import Denied, DialTarget
from pysandbox.shapes import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pysandbox.gate.doors import DoorSession
    from pysandbox.gate.tcp.inspected import Inspected

ANSWER_SECONDS = 60.0  # for a server to answer a hello


async def proxy_connection(
    session: DoorSession, target: DialTarget, client: ClientStream, server: ClientStream, *, opaque: bool = False,
    proxied: bool = False,
) -> None:  # fmt: skip
    """Serves a connection until both sides have ended, or it was cut: by the session, or by cancelling this. Owns
    `server`, and uses up `client`. `opaque`: its first bytes were judged before. `proxied`: a request that
    names its server, to a host with a contract. Raises OSError."""
    task = asyncio.current_task()
    assert task is not None
    try:
        held = session.connections.register(target, server.sock, task.cancel)
    except (Denied, OSError):  # or the server has hung up already
        server.reset()
        client.reset()
        return
    contract = session.rules.contract(*target) if session.net.inspection is not None else None
    carried: _Proxied | Inspected
    try:
        if contract is not None:
            from pysandbox.gate.tcp.inspected import Inspected

            carried = Inspected(session, target, contract, client, server)
            said, client.said = (client.said, b"") if proxied else (b"", client.said)
            await (carried.serve(said, secure=False, proxied=True) if proxied else carried.run())
        else:
            carried = _Proxied(session, target, client, server, held)
            await (carried.pass_on() if opaque else carried.run())
    except asyncio.CancelledError:
        session.connections.unregister(held)
        server.reset()
        raise
    finally:
        session.connections.unregister(held)
        carried.end()
        server.close()


class _Proxied:
    def __init__(
        self, session: DoorSession, target: DialTarget, client: ClientStream, server: ClientStream, held: int
    ) -> None:
        self._session, self._target, self._client, self._server = session, target, client, server
        self._held = held
        self._over: asyncio.Future[Any] = session.loop.create_future()
        self._number = 0

    async def run(self) -> None:
        sniffer = Sniffer(self._target, self._session.rules.may_name_at_address)
        verdict = await read_first_bytes(self._client, sniffer, partial(self._client.is_first, self._server))
        if verdict is None or verdict is AHEAD:
            await self._flow(sniffer, verdict is AHEAD)
        else:
            await self._follow(verdict, sniffer)

    async def pass_on(self) -> None:
        """Passes on what the client has sent, and everything after it."""
        said, self._client.said = self._client.said, b""
        self._splice(self._server.send_at_once(said))
        await asyncio.shield(self._over)

    def end(self) -> None:
        """Cuts what is still relayed."""
        if self._number and not self._over.done():
            self._session.relay.cut(self._number)

    async def _flow(self, sniffer: Sniffer, ahead: bool) -> None:
        """Passes on what the server sends, at once; what the client sends, once it is judged, or at once where it goes
        `ahead`. No HTTP server sends first."""
        reader = self._client.dup_reader()
        passed = bytes(sniffer.said) if ahead else b""
        self._splice(passed, hold=True)
        sniffing = asyncio.create_task(self._sniff_on(reader, sniffer, len(passed)))
        try:
            await _first_of(sniffing, self._over)
            if self._over.done():
                return
            verdict, passed_on = await sniffing
        finally:
            sniffing.cancel()
            await asyncio.gather(sniffing, return_exceptions=True)
            reader.close()
        if verdict.way is Way.PASS and sniffer.is_tls:
            self._deny("a TLS hello in pieces, or to a server that has spoken first")
        elif verdict.way is Way.PASS:
            self._session.relay.release(self._number, bytes(sniffer.said[passed_on:]))
            await asyncio.shield(self._over)
        else:
            in_pieces = (
                "HTTP whose first line came in pieces" if passed_on else "HTTP to a server that has spoken first"
            )
            self._deny(verdict.why or in_pieces)

    async def _sniff_on(self, reader: ClientStream, sniffer: Sniffer, passed: int) -> tuple[SniffResult, int]:
        """Reads on: the verdict, and how many bytes were passed on before it."""
        while (verdict := await read_first_bytes(reader, sniffer, reader.is_spoken_to)) is AHEAD:
            self._session.relay.say(self._number, bytes(sniffer.said[passed:]))
            passed = len(sniffer.said)
        return verdict or LATE, passed

    async def _follow(self, verdict: SniffResult, sniffer: Sniffer) -> None:
        self._client.said = bytes(sniffer.said)
        if verdict.way is Way.PASS and sniffer.is_tls:
            await self._pass_tls(sniffer)
        elif verdict.way is Way.PASS:
            await self.pass_on()
        elif verdict.way is Way.HTTP:
            await self._forward()
        else:
            self._deny(verdict.why)
            if verdict.answer:
                await self._client.close_gracefully(verdict.answer)
            self._client.reset()

    async def _pass_tls(self, sniffer: Sniffer) -> None:
        """Passes on what follows a hello, once it cannot be another one that names another host."""
        after = sniffer.after_hello
        await self._server.send(bytes(sniffer.said[: len(sniffer.said) - len(after)]))
        self._client.said = after
        try:
            if await self._is_asked_again():
                await self._pass_second_hello(sniffer.name)
        except (NotTls, TimeoutError) as error:
            self._deny(str(error) or "no second hello came in time, or no answer to the first one")
            await self._client.close_gracefully(UNRECOGNIZED_NAME)
            return
        await self.pass_on()

    async def _is_asked_again(self) -> bool:
        """Passes on the server's first words. Raises TimeoutError."""
        reader, asks = AnswerReader(), None
        async with asyncio.timeout(ANSWER_SECONDS):
            while asks is None:
                said = await self._server.read()
                asks = reader.asks_again(said) if said else False
                await self._client.send(said)
        return asks

    async def _pass_second_hello(self, name: bytes | None) -> None:
        """Raises NotTls, TimeoutError."""
        second = SecondHello(name)
        async with asyncio.timeout(WORDS_SECONDS):
            while said := await self._client.read():
                if second.read(said):
                    break
            else:
                raise NotTls("the client has hung up where a second hello was asked for")
        self._client.said = bytes(second.said)

    async def _forward(self) -> None:
        from pysandbox.gate.http.forward import Forwarder

        tunnel = await Forwarder(self._session, self._client, (self._target, self._server)).run()
        if tunnel is None:
            await self._client.close_gracefully()
        else:
            await self.pass_on()

    def _deny(self, why: str) -> None:
        self._session.ledger.denied("tcp", *self._target, Decision(False, why, ""))

    def _splice(self, said: bytes = b"", *, hold: bool = False) -> None:
        def ended(spliced: object) -> None:
            if not self._over.done():
                self._over.set_result(spliced)

        def hand_over() -> int:
            client, server = self._client.detach(), self._server.detach()
            return int(
                self._session.relay.splice(
                    client, server, self._target, ended, hold=hold, said=said, cage=self._session.number
                )
            )

        self._number = self._session.connections.splice(self._held, hand_over)


async def _first_of(*waited: asyncio.Future[Any]) -> None:
    await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
