"""The conversation on one inspected connection: each request is read, held against the contract and written anew, one
after the other; its answer likewise. Bytes in, bytes out: no socket here, and no clock. A request may open a WebSocket:
its messages are all that follows then.

A request is passed on once its head is allowed, its body as it comes; an answer from its first byte. Whatever makes no
sense ends the conversation: with an answer while there is room for one, with a reset where not, so that nobody takes
half a message for a whole one.
"""

from __future__ import annotations

from collections.abc import Callable

from pysandbox.gate.inspection.bodies import Body, Chunked, Nothing, OfLength, UntilEnd
from pysandbox.gate.inspection.handshake import EXTENSIONS, SWITCHED, Handshake, is_asked
from pysandbox.gate.inspection.heads import (
    BadMessage,
    Field,
    Head,
    content_length,
    end_to_end,
    is_chunked,
    take_request,
    take_response,
    written,
)
from pysandbox.gate.inspection.in_flight import HIGH
from pysandbox.gate.inspection.judge import (
    ALT_SVC,
    MOST_INTERIM,
    REFUSES,
    Judge,
    refused_by,
    rule_of,
    wants_json,
)
from pysandbox.gate.inspection.leak import RequestScan
from pysandbox.gate.inspection.secrets import ConnectionSecrets, Withheld
from pysandbox.gate.inspection.terms import Refused, Terms, Told
from pysandbox.gate.inspection.websocket import WebSocket
from pysandbox.gate.refusal import answer

CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
OF_HOST = frozenset((b"host",))
HINTS = ALT_SVC | {b"content-length"}


class Exchange:
    """`over`: what is left in `to_client` is sent, and the connection ends. `broken`: it ends at once, with a reset."""

    def __init__(
        self, terms: Terms, tell: Callable[[Told], object], secrets: ConnectionSecrets | None = None,
        scan: RequestScan | None = None,
    ) -> None:  # fmt: skip
        self._terms, self._secrets, self._scan = terms, secrets, scan
        self._judge = Judge(terms, tell, secrets)
        self.to_client, self.to_server = bytearray(), bytearray()
        self._from_client, self._from_server = bytearray(), bytearray()
        self.high = HIGH
        self.over = self.broken = False
        self.answered = 0
        self._busy = False  # a request is on its way, and its answer is not over
        self._last = False  # the connection ends after this answer
        self._interim = 0
        self._head: Head | None = None  # of the request
        self._request: Body = Nothing()
        self._response: Body | None = None
        self._opening: Handshake | None = None  # the request asks for a WebSocket
        self._socket: WebSocket | None = None  # it is one by now
        self._failed: Refused | None = None  # what the next request is answered

    # ---- what the connection asks of it -------------------------------------------------------------------------

    @property
    def hears_client(self) -> bool:
        room = len(self.to_server) < self.high and len(self._from_client) < self.high
        return room and not (self.over or self.broken or (self._socket is not None and self._socket.sent.more))

    @property
    def hears_server(self) -> bool:
        room = len(self.to_client) < self.high
        return room and not (self.over or self.broken or (self._socket is not None and self._socket.received.more))

    @property
    def goes_on(self) -> bool:
        """Whether something was left for another turn."""
        if self.over or self.broken:
            return False
        if self._socket is None:
            return self._busy and self._request.goes_on and len(self.to_server) < self.high
        sends = self._socket.sent.more and len(self.to_server) < self.high
        return sends or (self._socket.received.more and len(self.to_client) < self.high)

    @property
    def in_flight(self) -> int:
        """Bytes that wait here."""
        return len(self.to_client) + len(self.to_server) + len(self._from_client) + len(self._from_server)

    @property
    def unsent(self) -> bool:
        """Whether something of a request that is allowed may still be sent."""
        return bool(self.to_server) or (self._socket is None and self._busy and not self._request.done)

    @property
    def is_begun(self) -> bool:
        """Whether a head has begun that is not whole."""
        return bool(self._from_client) and not self._busy

    @property
    def is_waiting(self) -> bool:
        """Whether the server owes an answer, or the end of a WebSocket."""
        if self._socket is not None:
            return self._socket.is_closing
        return self._busy and self._response is None and not self._request.is_looking

    @property
    def waits_since(self) -> float | None:
        """The moment since which it does, where that is not the last one at which anything happened."""
        return None

    def leave(self) -> None:
        """The connection has ended."""
        self._request.leave()

    def client_said(self, said: bytes) -> None:
        self._from_client += said
        self._ask()

    def go_on(self) -> None:
        """With what was left for another turn."""
        if self._socket is None:
            if self.goes_on:
                self._ask()
            return
        if len(self.to_server) < self.high:
            self._ask()
        if len(self.to_client) < self.high:
            self._read_answer()
        self.over = self.over or self._socket.is_over(waits=bool(self.to_server))

    def client_ended(self) -> None:
        if self._socket is not None:
            self._socket.left = True
        elif not self._busy:
            self.over = True
        elif not self._request.end():
            self.broken = True
        self._last = True

    def server_said(self, said: bytes) -> None:
        self._from_server += said
        self._read_answer()

    def server_ended(self, *, clean: bool) -> None:
        """`clean`: it said that this is all, as TLS does."""
        if self._socket is not None:  # without a close frame before it, the client knows what it was
            self._socket.ended = True
        elif not self._busy:
            self.over = True
        elif self._response is None:
            self.fail(502, "upstream-unreachable", f"{self._terms.host} hung up before it answered")
        elif clean and self._response.end():
            self.to_client += self._response.rest
            self.over = True
        else:
            self.broken = True

    def fail(self, status: int, code: str, why: str) -> None:
        """Nothing will come of the request, or of the next one."""
        self._refuse(Refused(status, code, why))

    def late(self) -> None:
        """A head that has begun was not finished in time."""
        self.over = True
        self.to_client += answer(408, "bad-request", "the head was not finished in time")

    # ---- the request --------------------------------------------------------------------------------------------

    def _ask(self) -> None:
        try:
            while not (self.over or self.broken):
                if self._socket is not None:
                    self.to_server += self._socket.sent.take(self._from_client)
                    return
                if self._busy:
                    self._pass_body()
                    return
                head = take_request(self._from_client)
                if head is None:
                    return
                self._begin(head)
        except REFUSES as error:
            self._refuse(refused_by(error))

    def _begin(self, head: Head) -> None:
        self._head, self._busy, self._response, self._interim = head, True, None, 0
        self._last = self._last or self._terms.proxied or head.minor == 0 or head.closes
        if self._failed is not None:
            raise self._failed
        self._request, length = _framing(head)
        has_body = not isinstance(self._request, Nothing) and length != 0
        self._opening = Handshake.of(head, has_body=has_body) if is_asked(head) else None
        opens = self._opening is not None
        head, path, self._request, asks = self._judge.request(
            head, self._request, length, self._scan, opens_websocket=opens
        )
        if asks:
            self.to_client += CONTINUE
        if self._secrets is not None:
            self._opening = self._opening and Handshake.of(head, has_body=False)  # as it is sent
        self.to_server += self._request.headed(self._written(head, path))
        self._pass_body()

    def _written(self, head: Head, path: bytes) -> bytes:
        terms = self._terms
        default = terms.port == (443 if terms.secure else 80)
        host = terms.host.encode() if default else b"%s:%d" % (terms.host.encode(), terms.port)
        dropped = OF_HOST if self._opening is None else OF_HOST | EXTENSIONS
        fields: list[Field] = [(b"host", b"Host", host), *end_to_end(head, dropped)]
        if self._opening is not None:
            fields += SWITCHED
        if is_chunked(head):
            fields.append((b"transfer-encoding", b"Transfer-Encoding", b"chunked"))
        return written(b"%s %s HTTP/1.1" % (head.first[0], path), fields)

    def _pass_body(self) -> None:
        if self._request.done:
            return
        request, come = self._request, self._from_client
        if not self.to_server and isinstance(request, OfLength) and request.passes(len(come)):
            self._judge.hold_body(request.size)
            self.to_server, self._from_client = come, self.to_server
            return
        said = request.take(come)
        self._judge.hold_body(request.size)
        self.to_server += said

    def _refuse(self, refused: Refused) -> None:
        if not self._busy and refused.status >= 500:
            self._failed = refused
            return
        self.to_server.clear()  # no server is to take what was said so far for a whole message
        head = self._head if self._busy else None
        self._judge.tell(refused, head)
        self._request.leave()
        if self._socket is not None:
            self.to_client += self._socket.refusal(refused.status, refused.code, refused.why)
            self.over = True
            return
        if self._response is not None:
            self.broken = True
            return
        self.to_client += answer(
            refused.status, refused.code, refused.why, rule=rule_of(refused.column), patch=self._judge.patch(refused),
            as_json=wants_json(head), bare=head is not None and head.first[0] == b"HEAD", fields=refused.fields,
        )  # fmt: skip
        self.over = True

    # ---- the answer ---------------------------------------------------------------------------------------------

    def _read_answer(self) -> None:
        try:
            while self._from_server and not (self.over or self.broken):
                if not self._busy:
                    self.over = True  # it speaks unasked
                elif self._socket is not None:
                    self.to_client += self._socket.received.take(self._from_server)
                    return
                elif self._response is None:
                    head = take_response(self._from_server)
                    if head is None:
                        return
                    self._respond(head)
                else:
                    before = len(self._from_server)
                    self._pass_answer(self._response)
                    if self._response.done:
                        self._finish()
                    elif len(self._from_server) == before:
                        return
        except Withheld as withheld:
            if self._socket is None:
                self.fail(502, "secret-unreadable", withheld.why)
            else:
                self._refuse(Refused(451, "secret-refused", withheld.why, column=withheld.rule))
        except BadMessage as error:
            self.fail(502, "upstream-unreachable", f"the answer of {self._terms.host} makes no sense: {error}")

    def _pass_answer(self, response: Body) -> None:
        come = self._from_server
        if not self.to_client and isinstance(response, OfLength) and response.passes(len(come)):
            self.to_client, self._from_server = come, self.to_client
        else:
            self.to_client += response.take(come)

    def _respond(self, head: Head) -> None:
        status, asked = int(head.first[0]), self._head
        assert asked is not None
        if status == 101:
            self._switch(head)
            return
        if self._secrets is not None:
            head = self._secrets.response(head)
        if status < 200:
            self._interim += 1
            if self._interim > MOST_INTERIM:
                raise BadMessage("too many interim answers")
            if asked.minor:
                self.to_client += written(_status(head), end_to_end(head, HINTS))
            return
        body = _body_of(head, status, asked)
        if self._secrets is not None and not isinstance(body, Nothing):
            body.passing = self._secrets.response_body(head)
        self._response = body
        self._last = self._last or head.closes or isinstance(self._response, UntilEnd)
        chunked = is_chunked(head)
        fields = end_to_end(head, HINTS if chunked else ALT_SVC)
        if isinstance(self._response, Chunked) and asked.minor:
            fields.append((b"transfer-encoding", b"Transfer-Encoding", b"chunked"))
        if self._last:
            fields.append((b"connection", b"Connection", b"close"))
        fields += self._scan.warnings() if self._scan is not None else ()
        self.to_client += written(_status(head), fields)
        if self._response.done:
            self._finish()

    def _switch(self, head: Head) -> None:
        """What was waiting already is frames too."""
        if self._opening is None:
            raise BadMessage("an upgrade that nobody asked for")
        self._opening.check(head)
        if self._secrets is not None:
            head = self._secrets.response(head)
        self.to_client += written(_status(head), [*end_to_end(head, HINTS), *SWITCHED])
        self._socket = WebSocket(self._terms, self._secrets, self._scan)
        self._ask()

    def _finish(self) -> None:
        self._busy, self._response, self.answered = False, None, self.answered + 1
        if self._last or not self._request.done:
            self.over = True
        else:
            self._ask()


def _body_of(head: Head, status: int, asked: Head) -> Body:
    chunked = is_chunked(head)
    length = content_length(head)  # one that makes no sense is refused, also where it does not count
    if asked.first[0] == b"HEAD" or status in (204, 304):
        return Nothing()
    if chunked:
        return Chunked(bare=not asked.minor)
    return UntilEnd() if length is None else OfLength(length)


def _framing(head: Head) -> tuple[Body, int | None]:
    """The body of a request, and its length where that is told. Raises BadMessage."""
    chunked, length = is_chunked(head), content_length(head)
    if chunked and length is not None:
        raise BadMessage("both Content-Length and Transfer-Encoding: where the request ends has two readings")
    if chunked:
        return Chunked(), None
    return (Nothing(), 0) if length is None else (OfLength(length), length)


def _status(head: Head) -> bytes:
    return b"HTTP/1.1 %s %s" % head.first
