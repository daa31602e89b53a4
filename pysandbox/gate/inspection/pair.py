"""One inspected connection: its client, its server, and the exchange between them. Reads what has come, has it judged,
writes what may go; waits where one side is slower than the other, and gives up on whoever is too slow.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from functools import partial

from pysandbox.gate.inspection.in_flight import AT_ONCE, HIGH, LITTLE, LOW, InFlight
from pysandbox.gate.inspection.loop import GONE, IN, OUT, Loop, Timer
from pysandbox.gate.inspection.mirror import AnyExchange, Mirror, NotSpoken
from pysandbox.gate.inspection.record_meter import Broken
from pysandbox.gate.inspection.sides import Side, TlsFailed

HANDSHAKE_SECONDS = 10.0
HEAD_SECONDS = 10.0  # from the first byte of a head to its end
FLUSH_SECONDS = 30.0  # for a client to take the last words
READS = 4  # of one side in one turn
MOST_KEPT = 1 << 17  # bytes that TLS has to say to a side that does not take them, until no more is read of it
FULL = 16000  # bytes of a read after which more may have come


class InspectedPair:
    """`over` is called once, with whether it ended in a reset; `untrusted` when the client does not accept our
    certificate. Both sides are closed by then."""

    def __init__(
        self, loop: Loop, client: Side, server: Side, exchange: AnyExchange, patience: float,
        in_flight: InFlight, share: int, *, mirror: Mirror | None = None,
        over: Callable[[bool], object], untrusted: Callable[[str], object], refused: Callable[[str], object],
    ) -> None:  # fmt: skip
        self._loop, self._client, self._server, self._exchange = loop, client, server, exchange
        self._mirror = mirror  # while the client waits for what its server speaks
        self._patience, self._over, self._untrusted, self._refused = patience, over, untrusted, refused
        self._client_ended = self._server_ended = self._ended = False
        self._waits, self._until, self._set = "", 0.0, 0.0
        self._timer: Timer | None = None
        self._comes = False  # a turn in which it goes on with what was left
        self._in_flight, self._share, self._most = in_flight, share, AT_ONCE
        self.soon()

    def soon(self) -> None:
        """Takes a turn, whatever has come."""
        self._loop.soon(partial(self._guarded, self._turn, True, True), self._share)

    @property
    def unsent(self) -> bool:
        """Whether something of a request that is allowed may still be sent."""
        return self._exchange.unsent or self._server.writes or bool(self._server.kept)

    def _guarded(self, turn: Callable[..., object], *arguments: object) -> None:
        """Whatever a stranger's bytes set off ends this connection, and no other."""
        try:
            turn(*arguments)
        except Exception as error:
            if not isinstance(error, Broken):
                os.write(2, f"pysandbox: the inspector ends a connection: {type(error).__name__}\n".encode())
            self.end(reset=True)

    # ---- one turn -----------------------------------------------------------------------------------------------

    def _turn(self, client: bool, server: bool) -> None:
        if self._ended:
            return
        self._comes = False
        crowded = self._in_flight.is_crowded
        self._exchange.high, self._most = (LOW, LITTLE) if crowded else (HIGH, AT_ONCE)
        waited = self._mirror is not None
        if not self._server_ended:
            self._turn_server(server)
        self._turn_client(client or (waited and self._mirror is None))
        self._flush_client()
        self._flush_server()
        self._exchange.go_on()
        self._in_flight.has(self, self._exchange.in_flight + self._client.kept + self._server.kept)
        if self._exchange.broken:
            self.end(reset=True)
        elif self._exchange.over and not self._exchange.to_client and self._client.ready and not self._client.writes:
            self._client.end()
            self.end(reset=False)
        else:
            self._wait()
            if self._exchange.goes_on and not self._comes:
                self._comes = True
                self.soon()

    def _turn_client(self, readable: bool) -> None:
        if not readable or self._mirror is not None:
            return
        if not self._client.ready:
            try:
                self._client.handshake()
            except TlsFailed as error:
                self._untrusted(str(error) if error.untrusted else "")
                raise Broken(str(error)) from None
            if not self._client.ready:
                return
        for _ in range(READS):
            if self._client_ended or not self._hears_client:
                return
            said = self._client.read(self._most)
            if said is None:
                return
            if not said:
                self._client_ended = True
                self._exchange.client_ended()
                return
            self._exchange.client_said(said)
            if len(said) < FULL and not self._client.is_over:
                return
            self._flush_server()

    def _turn_server(self, readable: bool) -> None:
        if not readable:
            return
        if not (self._server.ready or self._greet_server()):
            return
        for _ in range(READS):
            if self._server_ended or not self._hears_server:
                return
            try:
                said = self._server.read(self._most)
            except Broken:
                self._server_ended = True
                self._exchange.server_ended(clean=False)
                return
            if said is None:
                return
            if not said:
                self._server_ended = True
                self._exchange.server_ended(clean=self._server.clean)
                return
            self._exchange.server_said(said)
            if len(said) < FULL and not self._server.is_over:
                return
            self._flush_client()

    @property
    def _hears_client(self) -> bool:
        return self._exchange.hears_client and self._client.kept < MOST_KEPT

    @property
    def _hears_server(self) -> bool:
        return self._exchange.hears_server and self._server.kept < MOST_KEPT

    def _flush_client(self) -> None:
        exchange = self._exchange
        if self._client.ready and (exchange.to_client or self._client.writes):
            del exchange.to_client[: self._client.write(exchange.to_client)]

    def _flush_server(self) -> None:
        exchange = self._exchange
        if (exchange.to_server or self._server.writes) and self._server.ready and not self._server_ended:
            try:
                del exchange.to_server[: self._server.write(exchange.to_server)]
            except Broken:
                exchange.to_server.clear()  # it takes no more, and may have an answer

    def _greet_server(self) -> bool:
        """Goes on with its handshake; whether that is over."""
        try:
            self._server.handshake()
        except NotSpoken as error:
            self._give_up("upstream-unreachable", str(error))
        except TlsFailed as error:
            if error.untrusted:
                self._refused(str(error))
            self._give_up("upstream-tls", f"TLS with the server failed: {error}")
        if self._server.ready:
            self._agree(self._server.protocol)
        return self._server.ready

    def _give_up(self, code: str, why: str) -> None:
        """Nothing will come of this server; whoever asks is told."""
        self._server_ended = True
        self._agree("")
        self._exchange.fail(502, code, why)

    def _agree(self, protocol: str) -> None:
        """The client is spoken to in what its server has chosen; "" where that is not to be had."""
        if self._mirror is not None:
            self._exchange, self._mirror = self._mirror(protocol), None

    # ---- waiting ------------------------------------------------------------------------------------------------

    def _wait(self) -> None:
        exchange, client, server = self._exchange, self._client, self._server
        hears = (not client.ready and self._mirror is None) or (
            client.ready and self._hears_client and not self._client_ended
        )
        told = client.ready and client.is_over and hears  # by nothing that the sockets will tell
        writes = client.writes or (client.ready and bool(exchange.to_client))
        self._loop.wait_for(client.fileno(), IN * hears | OUT * writes, self._client_event, self._share)
        if self._server_ended:
            self._loop.forget(server.fileno())
        else:
            hears = not server.ready or self._hears_server
            told = told or (server.is_over and hears)
            writes = server.writes or (server.ready and bool(exchange.to_server))
            self._loop.wait_for(server.fileno(), IN * hears | OUT * writes, self._server_event, self._share)
        if told:
            self.soon()
        if self._in_flight.is_crowded:
            self._in_flight.wait(self, self.soon)
        self._be_patient()

    def _client_event(self, event: int) -> None:
        self._guarded(self._client_turn, event)

    def _server_event(self, event: int) -> None:
        self._guarded(self._server_turn, event)

    def _client_turn(self, event: int) -> None:
        if event & GONE and not event & IN:
            self.end(reset=True)
        else:
            self._turn(True, self._server.ready and bool(self._exchange.to_client))

    def _server_turn(self, event: int) -> None:
        if event & GONE and not event & (IN | OUT):
            self._server_ended = True
            self._exchange.server_ended(clean=False)
        self._turn(False, True)

    def _be_patient(self) -> None:
        """A deadline for what is waited for now; it begins anew when that changes, and while a request goes on."""
        exchange, now = self._exchange, time.monotonic()
        if not self._client.ready or not (self._server.ready or self._server_ended):
            waits, patience = "handshake", HANDSHAKE_SECONDS
        elif exchange.over:
            waits, patience = "flush", FLUSH_SECONDS
        elif exchange.is_waiting:
            waits, patience = "answer", self._patience
        elif exchange.is_begun:
            waits, patience = "head", HEAD_SECONDS
        else:
            waits, patience = "", 0.0
        if waits == "answer" or waits != self._waits:
            self._waits, self._until = waits, (exchange.waits_since or now) + patience
        if waits and not (now < self._set <= self._until):
            self._set = self._until
            self._set_timer()

    def _set_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.at(self._set, partial(self._guarded, self._is_late))

    def _is_late(self) -> None:
        if self._ended or not self._waits:
            self._set = 0.0
            return
        if time.monotonic() < self._until:
            self._set = self._until
            self._set_timer()
            return
        self._set, waited = 0.0, self._mirror is not None
        if self._waits == "answer":
            self._exchange.fail(504, "upstream-timeout", f"no answer in {self._patience:g} s")
        elif self._waits == "head":
            self._exchange.late()
        elif self._waits == "handshake" and (self._client.ready or self._mirror is not None):
            self._server_ended = True
            self._agree("")
            self._exchange.fail(504, "upstream-timeout", "the server did not finish its TLS handshake in time")
        else:
            self.end(reset=True)
            return
        self._turn(waited, False)

    def end(self, *, reset: bool) -> None:
        """Idempotent."""
        if self._ended:
            return
        self._ended = True
        if self._timer is not None:  # it holds all of this
            self._timer.cancel()
        self._exchange.leave()
        self._in_flight.leave(self)
        for side in (self._client, self._server):
            self._loop.forget(side.fileno())
        self._over(reset)
        for side in (self._client, self._server):
            side.close()
