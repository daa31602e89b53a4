"""HTTP between a cage and the servers it may reach, one request after another: at the HTTP door, and wherever a cage
speaks plain HTTP to a server itself.

Every request is read whole up to its end, held against the rules and written anew, so a second host that follows on the
same connection is decided like the first. At the door (`bound` is None) each request names its server; elsewhere the
server is connected already and each Host must be its name.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress

import h11

from pysandbox.gate.http import http2
from pysandbox.gate.http import messages as http
from pysandbox.gate.http.asked import connected
from pysandbox.gate.http.messages import BadRequest
from pysandbox.gate.rules import Decision
from pysandbox.gate.tcp.sniff import disagreement
from pysandbox.gate.tcp.stream import ClientStream, until_readable
from pysandbox.gate.tcp.target import Denied, DialTarget, Unreachable
from pysandbox.shapes import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from pysandbox.gate.doors import DoorSession

HEAD_SECONDS = 10.0  # from the first byte of a head to its end
IDLE_SECONDS = 75.0  # between two requests at the door


class Tunnel(NamedTuple):
    """The bytes that follow are not HTTP. After a CONNECT they are sniffed like any other connection; after an upgrade
    (`opaque`) their protocol is unknown. `proxied`: they are HTTP, from the head of this request on, to a host with a
    contract, which the inspector looks at."""

    target: DialTarget
    server: ClientStream
    opaque: bool
    proxied: bool = False


class UpstreamConnection:
    """One connection to a server, with the state of HTTP on it."""

    def __init__(self, target: DialTarget, stream: ClientStream, held: int | None) -> None:
        self.target, self.stream, self.held = target, stream, held
        self.spoken: Any = h11.Connection(h11.CLIENT, max_incomplete_event_size=http.LONGEST_HEAD)

    def is_reusable(self) -> bool:
        return self.spoken.our_state is h11.DONE and self.spoken.their_state is h11.DONE and self.stream.is_quiet()


class RequestRefused(Exception):
    """The request is answered with this, and the connection closed."""

    def __init__(self, response: h11.Response, body: bytes) -> None:
        super().__init__(response.status_code)
        self.response, self.body = response, body


class Forwarder:
    def __init__(
        self, session: DoorSession, client: ClientStream, bound: tuple[DialTarget, ClientStream] | None = None
    ) -> None:
        self._session, self._client = session, client
        self._bound = bound[0] if bound else None
        self._upstream = UpstreamConnection(*bound, held=None) if bound else None
        self._asked: Any = h11.Connection(h11.SERVER, max_incomplete_event_size=http.LONGEST_HEAD)
        self._method = b""
        self._raw: bytearray | None = bytearray() if session.net.inspection is not None else None

    async def run(self) -> Tunnel | None:
        """Serves requests until the client, or the server it is bound to, closes. Raises OSError."""
        try:
            return await self._requests()
        except h11.ProtocolError as error:  # also of what was said to us and cannot be written anew
            await self._refuse(RequestRefused(*http.refusal(error.error_status_hint, "bad-request", str(error))))
        except RequestRefused as refused:
            await self._refuse(refused)
        finally:
            self._leave()
        return None

    async def _requests(self) -> Tunnel | None:
        while (request := await self._next_request()) is not None:
            if request.method == b"CONNECT" and self._bound is None:
                return await self._connect(request)
            if (inspected := await self._inspected(request)) is not None:
                return inspected
            upstream = await self._ask(request)
            if (switched := await self._exchange(upstream)) is not None:
                return switched
            if self._asked.our_state is not h11.DONE or self._asked.their_state is not h11.DONE:
                await self._client.close_gracefully()
                return None
            self._asked.start_next_cycle()
        return None

    # ---- the client's side --------------------------------------------------------------------------------------

    async def _next_request(self) -> h11.Request | None:
        """The next request; None at the end. A head must be whole in HEAD_SECONDS; silence may last longer."""
        try:
            event = await self._next_event()
        except TimeoutError:
            raise RequestRefused(*http.refusal(408, "bad-request", "the head was not finished in time")) from None
        if not isinstance(event, h11.Request):
            return None
        if http2.is_preface(event):
            await self._refuse_http2()
            return None
        self._method = event.method
        return event

    async def _refuse_http2(self) -> None:
        if self._bound is not None:
            self._session.ledger.denied("tcp", *self._bound, Decision(False, http2.WHY, ""))
        await self._client.close_gracefully(http2.refusal())

    async def _next_event(self) -> object:
        """Raises TimeoutError."""
        await self._client.turns.take()
        begun = bool(self._asked.trailing_data[0])
        if self._raw is not None:
            self._raw[:] = self._asked.trailing_data[0]
        async with asyncio.timeout(HEAD_SECONDS if begun else None) as patience:
            while (event := self._asked.next_event()) is h11.NEED_DATA:
                if not begun and not await self._is_spoken_to():
                    return None
                if not begun:
                    begun = True
                    patience.reschedule(asyncio.get_running_loop().time() + HEAD_SECONDS)
                said = await self._client.read()
                self._asked.receive_data(said)
                if self._raw is not None:
                    self._raw += said
        return event

    async def _is_spoken_to(self) -> bool:
        """Waits between two requests: whether another one begins before the server closes or the time is up."""
        if self._client.said or not self._client.is_quiet():
            return True
        waited_for = [self._client.sock]
        if self._bound is not None and self._upstream is not None:
            waited_for.append(self._upstream.stream.sock)
        with suppress(TimeoutError):
            async with asyncio.timeout(IDLE_SECONDS if self._bound is None else None):
                await until_readable(*waited_for)
        return not self._client.is_quiet()

    async def _inspected(self, request: h11.Request) -> Tunnel | None:
        """A request to a host with a contract is the inspector's, from its first byte on, and so is what follows it."""
        if self._raw is None or self._bound is not None:
            return None
        try:
            target, _ = http.absolute_target(request)
        except BadRequest as error:
            raise RequestRefused(*http.refusal(error.status, "bad-request", str(error))) from None
        if self._session.rules.contract(*target) is None:
            return None
        server = await self._dialled(target)
        self._client.said = bytes(self._raw) + self._client.said
        return Tunnel(target, server, opaque=False, proxied=True)

    async def _connect(self, request: h11.Request) -> Tunnel:
        try:
            target = http.connect_target(request)
        except BadRequest as error:
            raise RequestRefused(*http.refusal(error.status, "bad-request", str(error))) from None
        server = await self._dialled(target)
        try:
            self._asked.next_event()  # the end of the message: what follows belongs to the tunnel
            await self._client.send(connected(self._asked))
        except BaseException:
            server.close()
            raise
        self._client.said = bytes(self._asked.trailing_data[0])
        return Tunnel(target, server, opaque=False)

    # ---- where it goes ------------------------------------------------------------------------------------------

    async def _ask(self, request: h11.Request) -> UpstreamConnection:
        """Sends the head of the request to the server that it names. Raises RequestRefused."""
        try:
            target, path = self._target_of(request)
            head = http.forwarded(request, path, self._host_for(request, target))
        except BadRequest as error:
            raise RequestRefused(*http.refusal(error.status, "bad-request", str(error))) from None
        upstream = await self._upstream_to(target)
        await upstream.stream.send(upstream.spoken.send(head))
        return upstream

    def _target_of(self, request: h11.Request) -> tuple[DialTarget, bytes]:
        if self._bound is None:
            return http.absolute_target(request)
        host, path = http.origin_form(request)
        if host is not None:
            self._check_host(self._bound, host)
        return self._bound, path

    def _check_host(self, bound: DialTarget, host: http.Authority) -> None:
        rules = self._session.rules
        why = disagreement("Host", host.host.encode(), bound, rules.may_name_at_address)
        if host.port not in (None, bound.port):
            why = why or f"Host names port {host.port} in a connection to port {bound.port}"
        if why:
            decision = Decision(False, why, "")
            self._session.ledger.denied("tcp", host.host, host.port or bound.port, decision)
            raise RequestRefused(*http.blocked(f"{host.host} is refused here", decision))

    def _host_for(self, request: h11.Request, target: DialTarget) -> bytes:
        """The Host to send: what was checked. A name that the rules allow for an address stays."""
        if self._bound is not None:
            host, _ = http.origin_form(request)
            if host is not None:
                return http.host_header(DialTarget(host.host, target.port))
        return http.host_header(target)

    async def _upstream_to(self, target: DialTarget) -> UpstreamConnection:
        kept = self._upstream
        if kept is not None and kept.target == target:
            if self._bound is not None and kept.spoken.our_state is h11.IDLE:
                return kept
            if kept.is_reusable():
                kept.spoken.start_next_cycle()
                return kept
        if self._bound is not None:
            raise RequestRefused(*http.refusal(502, "upstream-unreachable", f"{target.host} has hung up"))
        self._leave()
        server = await self._dialled(target)
        self._upstream = UpstreamConnection(target, server, self._hold(target, server))
        return self._upstream

    async def _dialled(self, target: DialTarget) -> ClientStream:
        """Raises RequestRefused. An address that stands for a name is no way to ask for that name here."""
        try:
            found, server = await self._session.dial(target)
            if found == target:
                return ClientStream(server, self._session.turns)
            server.close()
            raise self._deny(target, Decision(False, "network.allow_ips", ""))
        except Denied as denied:
            raise RequestRefused(*http.denial(denied)) from None
        except Unreachable as error:
            said = http.refusal(error.status, error.code, str(error.strerror or error))
            raise RequestRefused(*said) from None

    def _deny(self, target: DialTarget, decision: Decision) -> Denied:
        self._session.ledger.denied("tcp", *target, decision)
        return Denied(target, decision)

    def _hold(self, target: DialTarget, server: ClientStream) -> int:
        """Raises RequestRefused."""
        task = asyncio.current_task()
        assert task is not None
        try:
            return self._session.connections.register(target, server.sock, task.cancel)
        except Denied as denied:
            server.close()
            raise RequestRefused(*http.denial(denied)) from None
        except OSError:
            server.close()
            raise RequestRefused(*http.refusal(502, "upstream-unreachable", f"{target.host} has hung up")) from None

    def _leave(self) -> None:
        upstream, self._upstream = self._upstream, None
        if upstream is None or self._bound is not None:
            return
        if upstream.held is not None:
            self._session.connections.unregister(upstream.held)
        upstream.stream.close()

    # ---- one exchange -------------------------------------------------------------------------------------------

    async def _exchange(self, upstream: UpstreamConnection) -> Tunnel | None:
        """Sends the rest of the request while the response is received. An error in one direction ends the other."""
        asking = asyncio.create_task(self._body(upstream))
        answering = asyncio.create_task(self._answer(upstream, asking))
        try:
            await asyncio.wait({asking, answering}, return_when=asyncio.FIRST_EXCEPTION)
            if asking.done() and (error := asking.exception()) is not None and not answering.done():
                raise error
            return await answering
        finally:
            for task in (asking, answering):
                task.cancel()
            await asyncio.gather(asking, answering, return_exceptions=True)

    async def _body(self, upstream: UpstreamConnection) -> None:
        """Raises h11.RemoteProtocolError, OSError of the client's."""
        while True:
            await self._client.turns.take()  # a read may hold ten thousand chunks
            event = self._asked.next_event()
            if event is h11.NEED_DATA:
                self._asked.receive_data(await self._client.read())
                continue
            if isinstance(event, h11.ConnectionClosed):
                raise ConnectionError("the client hung up in the middle of a request")
            said = h11.Data(data=event.data) if isinstance(event, h11.Data) else h11.EndOfMessage()
            try:
                await upstream.stream.send(upstream.spoken.send(said))
            except OSError:
                return  # the server wants no more of it, and may have an answer
            if isinstance(said, h11.EndOfMessage):
                return

    async def _answer(self, upstream: UpstreamConnection, asking: asyncio.Task[None]) -> Tunnel | None:
        while not isinstance(event := await self._next_response_event(upstream), h11.EndOfMessage):
            if isinstance(event, h11.InformationalResponse):
                if event.status_code == 101:
                    await asking
                    return await self._switch(upstream, event)
                if self._asked.their_http_version != b"1.0":
                    await self._client.send(self._asked.send(event))
            elif isinstance(event, h11.Response):
                close = self._bound is not None and http.wants_close(event)
                await self._client.send(self._asked.send(http.answered(event, close=close)))
            else:
                await self._client.send(self._asked.send(h11.Data(data=event.data)))
        await self._client.send(self._asked.send(h11.EndOfMessage()))
        return None

    async def _next_response_event(self, upstream: UpstreamConnection) -> Any:
        """The next event of the response. Raises RequestRefused for what cannot be forwarded."""
        await upstream.stream.turns.take()
        try:
            while (event := upstream.spoken.next_event()) is h11.NEED_DATA:
                upstream.spoken.receive_data(await upstream.stream.read())
            if isinstance(event, h11.ConnectionClosed) or event is h11.PAUSED:
                raise ConnectionError("the server hung up")
        except (h11.RemoteProtocolError, OSError) as error:
            text = f"{upstream.target.host}: {error}"
            raise RequestRefused(*http.refusal(502, "upstream-unreachable", text)) from None
        return event

    async def _switch(self, upstream: UpstreamConnection, event: h11.InformationalResponse) -> Tunnel:
        kept = [each for each in event.headers if each[0] in (b"connection", b"upgrade")]
        kept += http.end_to_end(event.headers)
        answer = h11.InformationalResponse(status_code=101, headers=kept, reason=event.reason)
        await self._client.send(self._asked.send(answer) + bytes(upstream.spoken.trailing_data[0]))
        self._client.said = bytes(self._asked.trailing_data[0])
        if upstream.held is not None:
            self._session.connections.unregister(upstream.held)
        self._upstream = None
        return Tunnel(upstream.target, upstream.stream, opaque=True)

    async def _refuse(self, refused: RequestRefused) -> None:
        """Answers with a refusal; resets where a response has begun, since half of one must not look whole."""
        if self._asked.our_state not in (h11.IDLE, h11.SEND_RESPONSE):
            self._client.reset()
            return
        said = self._asked.send(refused.response)
        if self._method != b"HEAD":
            said += self._asked.send(h11.Data(data=refused.body))
        await self._client.close_gracefully(said)
