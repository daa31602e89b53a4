"""A connection to a host with a contract: judged by its first bytes like every other, then the inspector's until it
ends.

Only TLS that names the host, and HTTP, can be held to a contract. Anything else is refused, also where the server would
speak first: a word that nobody has judged may be a request.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from functools import partial

from pysandbox.gate.held import cut, held_for
from pysandbox.gate.rules import Decision
from pysandbox.gate.tcp.first_bytes import AHEAD, LATE, read_first_bytes
from pysandbox.gate.tcp.sniff import Sniffer, Way
from pysandbox.gate.tcp.stream import ClientStream
from pysandbox.shapes import TYPE_CHECKING

if TYPE_CHECKING:
    from pysandbox.compile.plan import Contract
    from pysandbox.gate.doors import CarriedSession
    from pysandbox.gate.tcp.target import DialTarget

TRIES, PAUSE = 500, 0.02  # while its channel is full; one that stays so is stuck, and ended
NEITHER = "its [[host]] block says which requests may be sent, and this is neither TLS nor HTTP"


class Inspected:
    def __init__(
        self, session: CarriedSession, target: DialTarget, contract: Contract, client: ClientStream,
        server: ClientStream,
    ) -> None:  # fmt: skip
        self._session, self._target, self._contract = session, target, contract
        self._client, self._server = client, server
        self._over: asyncio.Future[bool] = session.loop.create_future()
        self._number = 0

    async def run(self) -> None:
        """From the first byte of the client's. Raises OSError."""
        sniffer = Sniffer(self._target, self._session.rules.may_name_at_address)
        verdict = await read_first_bytes(self._client, sniffer, partial(self._client.is_first, self._server))
        said = bytes(sniffer.said)
        if verdict is not None and verdict.way is Way.REFUSE:
            self._deny(verdict.why)
            await self._client.close_gracefully(verdict.answer)
        elif verdict is None and self._server.is_quiet():
            self._client.reset()
        elif verdict in (None, AHEAD, LATE) or (verdict.way is Way.PASS and said and not sniffer.is_tls):
            self._deny(NEITHER)
            self._client.reset()
        elif said:
            await self.serve(said, secure=sniffer.is_tls)

    async def serve(self, said: bytes, *, secure: bool, proxied: bool = False) -> None:
        """Has the inspector serve it; `said` was read of the client already."""
        inspector = self._session.inspector
        try:
            if inspector is None:
                raise OSError("there is no inspector")
            number = self._session.secrets
            held = held_for(self._session, self._target, self._contract, secure, self._ended, number)
            hand_over = partial(inspector.open, held, said, self._client.sock, self._server.sock, proxied=proxied)
            self._number = await self._once_read(hand_over)
        except OSError as error:
            self._deny(f"nobody can look at its requests: {error}")
            self._client.reset()
            return
        if await self._over:
            self._server.reset()
            self._client.reset()
        else:
            await self._client.close_gracefully()

    async def _once_read(self, hand_over: Callable[[], int]) -> int:
        """Hands it over as soon as the inspector has read of others what waits before it. Raises OSError."""
        for _ in range(TRIES):
            with suppress(BlockingIOError):
                return hand_over()
            await asyncio.sleep(PAUSE)
        return hand_over()

    def end(self) -> None:
        """Cuts what is still at the inspector. Idempotent."""
        if self._number and not self._over.done() and self._session.inspector is not None:
            cut(self._client.sock)
            cut(self._server.sock)
            self._session.inspector.cut(self._number)

    def _ended(self, reset: bool) -> None:
        """Any thread. Raises RuntimeError when the loop has ended."""
        self._session.loop.call_soon_threadsafe(self._was_ended, reset)

    def _was_ended(self, reset: bool) -> None:
        if not self._over.done():
            self._over.set_result(reset)

    def _deny(self, why: str) -> None:
        self._session.ledger.denied("tcp", *self._target, Decision(False, why, ""))
