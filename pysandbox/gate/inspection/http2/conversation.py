"""The conversation on one inspected connection in HTTP/2, with the same face as that in HTTP/1.1 (`exchange`): bytes
in, bytes out, no socket here. Its requests go side by side; what is refused ends one stream and leaves the others.

What one side sends is read as far as the windows that it was given go, and they grow when the other side has taken it:
so a stream that nobody reads waits alone. A request is sent once its head is allowed, or, where it is scanned, as
far as that lets it go; an answer is passed on from its first byte.
"""

from __future__ import annotations

from h2.events import (
    DataReceived,
    Event,
    InformationalResponseReceived,
    RequestReceived,
    ResponseReceived,
    StreamEnded,
    StreamReset,
    TrailersReceived,
)
from h2.exceptions import ProtocolError

from pysandbox.gate.inspection.bodies import Nothing
from pysandbox.gate.inspection.heads import BadMessage, Head, content_length
from pysandbox.gate.inspection.http2 import frames
from pysandbox.gate.inspection.http2.fields import (
    CONNECTION,
    Listed,
    listed,
    request_head,
    response_head,
    trailer_lines,
)
from pysandbox.gate.inspection.http2.frames import CANCEL, NO_ERROR, PROTOCOL_ERROR, Flood
from pysandbox.gate.inspection.http2.side import ROOM, Http2Side
from pysandbox.gate.inspection.http2.stream import Http2Stream, Streamed
from pysandbox.gate.inspection.http2.streams import StreamTable
from pysandbox.gate.inspection.in_flight import HIGH
from pysandbox.gate.inspection.judge import (
    ALT_SVC,
    MOST_INTERIM,
    REFUSES,
    refused_by,
)
from pysandbox.gate.inspection.secrets import Withheld
from pysandbox.gate.inspection.terms import Refused

OF_REQUEST = CONNECTION | {b"host", b"te", b"trailer", b"proxy-authorization", b"proxy-authenticate"}
OF_RESPONSE = CONNECTION | ALT_SVC | {b"trailer", b"te", b"proxy-authenticate"}
A_REQUEST = 20  # frames without content that one accounts for; what it costs to take one back


class Conversation(StreamTable):
    """Has the face of `Exchange`."""

    # ---- what the connection asks of it -------------------------------------------------------------------------

    @property
    def hears_client(self) -> bool:
        return self._hears(self._client, sum(each.sent.waits for each in self._streams.values()))

    @property
    def hears_server(self) -> bool:
        return self._hears(self._server, sum(each.received.waits for each in self._streams.values()))

    def _hears(self, side: Http2Side, waits: int) -> bool:
        """Whether the side is read. Its windows bound what it sends; while the cage is crowded, reading later does.
        What it is answered (PING, SETTINGS) has to be taken first."""
        room = len(side.come) < self.high and len(side.to) < self.high + ROOM
        return room and not (self.over or self.broken) and (self.high >= HIGH or waits < self.high)

    @property
    def goes_on(self) -> bool:
        return self._goes_on and not (self.over or self.broken)

    @property
    def in_flight(self) -> int:
        buffers = len(self.to_client) + len(self.to_server) + len(self._client.come) + len(self._server.come)
        return buffers + sum(each.waits for each in self._streams.values())

    @property
    def unsent(self) -> bool:
        return bool(self.to_server) or any(not (each.sent.ended or each.refused) for each in self._streams.values())

    @property
    def is_begun(self) -> bool:
        return self._client.frames.is_begun

    @property
    def is_waiting(self) -> bool:
        return self.waits_since is not None

    @property
    def waits_since(self) -> float | None:
        """The moment since which the request that waits longest has no answer."""
        return min((each.since for each in self._streams.values() if _owes(each) and each.since), default=None)

    def client_said(self, said: bytes) -> None:
        self._client.come += said
        self._read_client()
        self._pass_on()

    def server_said(self, said: bytes) -> None:
        self._server.come += said
        self._read_server()
        self._pass_on()

    def go_on(self) -> None:
        if self.over or self.broken:  # what is left to read is nobody's
            return
        if self._client.more:
            self._read_client()
        if self._server.more:
            self._read_server()
        self._hang_up()
        self._pass_on()

    def client_ended(self) -> None:
        self._last = True
        if self._streams:
            self.broken = True
        else:
            self.over = True

    def server_ended(self, *, clean: bool) -> None:
        """Each stream has an end of its own, so `clean` says nothing."""
        self._hung_up = True
        self._hang_up()

    def _hang_up(self) -> None:
        """The server has, and all that it had said before was read."""
        if not self._hung_up or self._server.more:
            return
        self._hung_up = False
        why = f"{self._terms.host} hung up before it answered"
        if self._streams:
            self.fail(502, "upstream-unreachable", why)
        else:
            self._say_goodbye(NO_ERROR, why)
            self.over = True

    def fail(self, status: int, code: str, why: str) -> None:
        """Nothing will come of the request that waits longest (504), or of any; the first one is told so too."""
        refused = Refused(status, code, why)
        late = [each for each in self._streams.values() if each.since and each.since == self.waits_since]
        if status == 504 and late:
            for stream in late:
                self._refuse(stream, refused)
            self._pass_on()
            return
        self._failed = refused
        for stream in list(self._streams.values()):
            source = stream.received.source
            if not (stream.answered and source is not None and source.ended):
                self._refuse(stream, refused)
        if self._newest:
            self._say_goodbye(NO_ERROR, why)
        self._pass_on()

    def late(self) -> None:
        """A header block was not finished in time."""
        self._end(PROTOCOL_ERROR, "a header block was not finished in time")

    # ---- the client ---------------------------------------------------------------------------------------------

    def _read_client(self) -> None:
        try:
            for event in self._client.read():
                try:
                    self._client_event(event)
                except ProtocolError:  # it was reset, of which the event has not been read
                    if (stream := self._streams.get(getattr(event, "stream_id", 0))) is not None:
                        self._drop(stream)
                    self._client.frames.spend(A_REQUEST)
            self._last = self._last or (self._client.frames.leaves is not None and not self._client.more)
        except Flood as error:
            self._end(frames.ENHANCE_YOUR_CALM, str(error))
        except BadMessage as error:
            self._end(PROTOCOL_ERROR, str(error))

    def _client_event(self, event: Event) -> None:
        if isinstance(event, RequestReceived):
            self._begin(event)
            return
        number = getattr(event, "stream_id", None)
        stream = self._streams.get(number or 0)
        if isinstance(event, DataReceived):
            self._content_came(event, stream, self._client)
        elif stream is None:
            return
        elif isinstance(event, StreamReset):
            self._client.frames.spend(0 if stream.answered else A_REQUEST)
            self._remove(stream, CANCEL)
        elif isinstance(event, TrailersReceived) and stream.sent.source is not None:
            try:
                stream.sent.source.trailer = trailer_lines(event.headers or ())
            except BadMessage as error:
                self._refuse(stream, refused_by(error))
        elif isinstance(event, StreamEnded) and stream.sent.source is not None:
            stream.sent.source.ended = True
            if not stream.answered:
                stream.since = self._clock()

    def _content_came(self, event: DataReceived, stream: Http2Stream | None, side: Http2Side) -> None:
        said, size = event.data or b"", event.flow_controlled_length or 0
        if stream is None or (side is self._client and stream.refused):
            side.has_taken(size, event.stream_id or 0)
            return
        flow = stream.sent if side is self._client else stream.received
        flow.come += said
        side.has_taken(size - len(said), event.stream_id or 0)  # padding
        if said:
            self._client.frames.counts(2)  # window updates, of one side or the other
            self._server.frames.counts(2)

    def _begin(self, event: RequestReceived) -> None:
        number = self._newest = event.stream_id or 0
        scan = self._scan.another() if self._scan is not None else None
        stream = self._streams[number] = Http2Stream(number, None, scan)
        source = None if event.stream_ended is not None else Streamed()
        stream.sent.begin(source, source or Nothing())
        stream.since = self._clock()
        try:
            head = stream.head = request_head(event.headers or ())
            if self._failed is not None:
                self._say_goodbye(NO_ERROR, self._failed.why)
                raise self._failed
            length = content_length(head) if source is not None else 0
            if source is None and content_length(head):
                raise BadMessage("a length, and no body")
            judged = self._judge.request(head, source or Nothing(), length, scan)
        except REFUSES as error:
            self._refuse(stream, refused_by(error))
            return
        if judged.asks:
            self._client.h2.send_headers(number, [(b":status", b"100")])
        stream.sent.begin(source, judged.body)
        stream.fields = self._written(judged.head, judged.path, te=bool(head.values(b"te")))

    def _written(self, head: Head, path: bytes, *, te: bool) -> Listed:
        terms = self._terms
        host = terms.host.encode() if terms.port == 443 else b"%s:%d" % (terms.host.encode(), terms.port)
        return [
            (b":method", head.first[0]), (b":scheme", b"https"), (b":authority", host), (b":path", path),
            *listed(head.fields, OF_REQUEST), *([(b"te", b"trailers")] if te else ()),
        ]  # fmt: skip

    # ---- the server ---------------------------------------------------------------------------------------------

    def _read_server(self) -> None:
        try:
            for event in self._server.read():
                stream = self._beyond.get(getattr(event, "stream_id", None) or 0)
                try:
                    self._server_event(event, stream)
                except ProtocolError:
                    if stream is not None:
                        self._drop(stream)
        except BadMessage as error:
            self.fail(502, "upstream-unreachable", f"what {self._terms.host} says makes no sense: {error}")
            self._server.come.clear()
            return
        if (leaves := self._server.frames.leaves) is not None and not self._last:
            for number in [each for each in self._beyond if each > leaves.last]:
                self._give_back(self._beyond[number])
            self._say_goodbye(NO_ERROR, f"{self._terms.host} is leaving")

    def _server_event(self, event: Event, stream: Http2Stream | None) -> None:
        if isinstance(event, DataReceived):
            self._content_came(event, stream, self._server)
        elif stream is None:
            return
        elif isinstance(event, StreamReset):
            self._client.reset(stream.number, int(event.error_code or 0))
            self._remove(stream)
        elif isinstance(event, StreamEnded) and stream.received.source is not None:
            stream.received.source.ended = True
        else:
            self._answer_came(event, stream)

    def _answer_came(self, event: Event, stream: Http2Stream) -> None:
        try:
            if isinstance(event, InformationalResponseReceived):
                stream.interim += 1
                if stream.interim > MOST_INTERIM:
                    raise BadMessage("too many interim answers")
                self._client.h2.send_headers(stream.number, self._answer(response_head(event.headers or ())))
            elif isinstance(event, ResponseReceived):
                self._respond(event, stream)
            elif isinstance(event, TrailersReceived) and stream.received.source is not None:
                stream.received.source.trailer = trailer_lines(event.headers or ())
        except BadMessage as error:
            text = f"the answer of {self._terms.host} makes no sense: {error}"
            self._refuse(stream, Refused(502, "upstream-unreachable", text))
        except Withheld as withheld:
            self._refuse(stream, Refused(502, "secret-unreadable", withheld.why))

    def _respond(self, event: ResponseReceived, stream: Http2Stream) -> None:
        head = response_head(event.headers or ())
        source = Streamed()
        if self._secrets is not None:
            head = self._secrets.response(head)
            source.passing = self._secrets.response_body(head)
        fields = self._answer(head, covered=True)
        fields += [(name, value) for name, _, value in (stream.scan.warnings() if stream.scan is not None else ())]
        stream.received.begin(source, source)
        stream.answered, stream.since = True, None
        self.answered += 1
        self._client.frames.counts(A_REQUEST)
        self._server.frames.counts(A_REQUEST)
        if event.stream_ended is not None:
            source.ended = source.done = stream.received.ended = True
        self._client.h2.send_headers(stream.number, fields, end_stream=stream.received.ended)

    def _answer(self, head: Head, *, covered: bool = False) -> Listed:
        if self._secrets is not None and not covered:
            head = self._secrets.response(head)
        return [(b":status", head.first[0]), *listed(head.fields, OF_RESPONSE)]


def _owes(stream: Http2Stream) -> bool:
    """Whether an answer is owed: by its server, or by a client that has not said yet all that is looked at before it is
    sent. Not while it is this process's turn, or that of others who have the room for it."""
    body = stream.sent.body
    return not (stream.answered or body.is_looking) and (bool(stream.beyond) or not body.goes_on)
