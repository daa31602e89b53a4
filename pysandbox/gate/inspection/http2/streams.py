"""The streams of a conversation in HTTP/2: what may go of each, as far as there is room, and how they end.

What is refused ends one stream and leaves the others: with an answer, where its client has had none yet.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from h2.exceptions import ProtocolError

from pysandbox.gate import refusal
from pysandbox.gate.inspection.heads import Head
from pysandbox.gate.inspection.http2.fields import Listed
from pysandbox.gate.inspection.http2.frames import CANCEL, INTERNAL_ERROR, NO_ERROR, REFUSED_STREAM, goaway
from pysandbox.gate.inspection.http2.side import Http2Side
from pysandbox.gate.inspection.http2.stream import Http2Stream
from pysandbox.gate.inspection.in_flight import HIGH
from pysandbox.gate.inspection.judge import REFUSES, Judge, refused_by, rule_of, wants_json
from pysandbox.gate.inspection.leak import RequestScan
from pysandbox.gate.inspection.secrets import ConnectionSecrets
from pysandbox.gate.inspection.terms import Refused, Terms, Told


class StreamTable:
    """`over`: what is left in `to_client` is sent, and the connection ends. `broken`: it ends at once, with a reset."""

    def __init__(
        self, terms: Terms, tell: Callable[[Told], object], secrets: ConnectionSecrets | None = None,
        scan: RequestScan | None = None, clock: Callable[[], float] = time.monotonic,
    ) -> None:  # fmt: skip
        self._terms, self._secrets, self._scan, self._clock = terms, secrets, scan, clock
        self._judge = Judge(terms, tell, secrets)
        self._client, self._server = Http2Side(is_client=True), Http2Side(is_client=False)
        self._streams: dict[int, Http2Stream] = {}  # by the client's number
        self._beyond: dict[int, Http2Stream] = {}  # by the server's
        self.high = HIGH
        self.over = self.broken = False
        self.answered = 0
        self._newest = 0  # stream of the client's
        self._last = False  # no more streams are opened
        self._goes_on = False
        self._hung_up = False  # the server, of which not all was read yet
        self._failed: Refused | None = None  # what the next requests are answered

    @property
    def to_client(self) -> bytearray:
        return self._client.to

    @property
    def to_server(self) -> bytearray:
        return self._server.to

    def leave(self) -> None:
        """The connection has ended."""
        for stream in self._streams.values():
            stream.sent.body.leave()

    # ---- passing on ---------------------------------------------------------------------------------------------

    def _pass_on(self) -> None:
        """What may go of each stream, as far as there is room."""
        before, self._goes_on = len(self._streams), self._client.more or self._server.more
        for stream in list(self._streams.values()):
            try:
                self._pass_stream(stream)
            except REFUSES as error:
                self._refuse(stream, refused_by(error))
                self._goes_on = True
            except ProtocolError:
                self._drop(stream)
        self._client.flush()
        self._server.flush()
        self._goes_on = self._goes_on or len(self._streams) < before
        if self._last and not self._streams:
            self.over = True

    def _pass_stream(self, stream: Http2Stream) -> None:
        sent, received = stream.sent, stream.received
        if not stream.refused:
            if sent.has_more and len(sent.out) < self.high:
                taken = sent.look(self._judge.hold_body)
                self._client.has_taken(taken, stream.number)
                if taken and not stream.answered:
                    stream.since = self._clock()
            if not stream.beyond and sent.body.may_begin:
                self._start(stream)
            if stream.beyond and not sent.ended and len(self.to_server) < self.high:
                waited = len(sent.out)
                sent.send(self._server.h2, stream.beyond)
                if len(sent.out) < waited:
                    stream.since = self._clock() if not stream.answered else None
                self._server.flush()
        if received.has_more and len(received.out) < self.high:
            taken = received.look(lambda _: None)
            self._server.has_taken(0 if stream.refused else taken, stream.beyond)
        if stream.answered and not received.ended and len(self.to_client) < self.high:
            received.send(self._client.h2, stream.number)
            self._client.flush()
        to_server, to_client = self.high - len(self.to_server), self.high - len(self.to_client)
        sends = not stream.refused and to_server > 0 and sent.goes_on(self.high)
        if sends or (to_client > 0 and received.goes_on(self.high)):
            self._goes_on = True
        if stream.is_over:
            self._remove(stream)

    def _start(self, stream: Http2Stream) -> None:
        """Sends its head, unless the server has as many requests as it wants already."""
        h2 = self._server.h2
        if self._server.frames.leaves is not None:
            self._give_back(stream)
            return
        if len(self._beyond) >= h2.remote_settings.max_concurrent_streams:
            return
        stream.beyond = h2.get_next_available_stream_id()
        self._beyond[stream.beyond] = stream
        sent = stream.sent
        sent.ended = sent.body.done and not sent.out and not sent.trailer
        h2.send_headers(stream.beyond, stream.fields, end_stream=sent.ended)
        stream.fields, stream.since = [], self._clock()

    # ---- ends ---------------------------------------------------------------------------------------------------

    def _refuse(self, stream: Http2Stream, refused: Refused) -> None:
        """Ends one stream: its client is told, if it has had no answer yet; its server is not to take it for whole."""
        self._judge.tell(refused, stream.head)
        stream.sent.body.leave()
        self._client.has_taken(len(stream.sent.come), stream.number)
        stream.sent.come.clear()
        if stream.beyond:
            self._server.reset(stream.beyond, CANCEL)
            self._beyond.pop(stream.beyond, None)
        if stream.answered:
            self._client.reset(stream.number, INTERNAL_ERROR)
            self._remove(stream)
            return
        stream.refused = stream.answered = True
        said, content = refusal_of(refused, stream.head, self._judge.patch(refused))
        try:
            self._client.h2.send_headers(stream.number, said, end_stream=not content)
        except ProtocolError:
            self._drop(stream)
            return
        stream.received.answer(content)

    def _give_back(self, stream: Http2Stream) -> None:
        """Nobody has worked on it: its client may ask again (RFC 9113, 8.7)."""
        self._client.reset(stream.number, REFUSED_STREAM)
        self._remove(stream)

    def _drop(self, stream: Http2Stream) -> None:
        """The library takes nothing more for it: it knows of a reset already whose event waits for another turn."""
        if not stream.refused:
            self._client.reset(stream.number, CANCEL)
        self._remove(stream, CANCEL)

    def _remove(self, stream: Http2Stream, code: int | None = None) -> None:
        """`code`: the server is told so."""
        stream.sent.body.leave()
        self._streams.pop(stream.number, None)
        if stream.beyond and self._beyond.pop(stream.beyond, None) is not None and code is not None:
            self._server.reset(stream.beyond, code)
        source = stream.sent.source
        if stream.refused and source is not None and not source.ended:
            self._client.reset(stream.number, NO_ERROR)

    def _say_goodbye(self, code: int, why: str) -> None:
        if not self._last:
            self._last = True
            self._client.flush()
            self.to_client.extend(goaway(self._newest, code, f"pysandbox: {why}"))

    def _end(self, code: int, why: str) -> None:
        """The client makes no sense: nothing of what it began goes on."""
        self._client.flush()
        self.to_server.clear()
        self.to_client.extend(goaway(self._newest, code, f"pysandbox: bad-request: {why}"))
        self.leave()
        self._streams.clear()
        self._beyond.clear()
        self.over = True


def refusal_of(refused: Refused, head: Head | None, patch: str) -> tuple[Listed, bytes]:
    """Fields and content of the answer; no content where the client has no use for one."""
    rule = rule_of(refused.column)
    kinds = head.values(b"content-type") if head is not None else []
    if kinds and kinds[0].lower().startswith(refusal.GRPC):
        status, content = b"200", b""
        said = refusal.grpc(refused.status, refused.code, refused.why, rule=rule, patch=patch, fields=refused.fields)
    else:
        status = b"%d" % refused.status
        said, content = refusal.told(
            refused.code, refused.why, rule=rule, patch=patch, as_json=wants_json(head), fields=refused.fields
        )
    fields = [(b":status", status), *((name.lower(), value) for name, value in said)]
    return fields, b"" if head is not None and head.first[0] == b"HEAD" else content
