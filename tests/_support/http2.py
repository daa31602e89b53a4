"""A client and a server of HTTP/2 around a conversation in memory: the library's own two ends, and raw frames."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Any

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import DataReceived, Event, StreamEnded, StreamReset

from pysandbox.compile.plan import Contract
from pysandbox.gate.inspection.http2.conversation import Conversation
from pysandbox.gate.inspection.http2.frames import GOAWAY, HEAD, PREFACE, SETTINGS
from pysandbox.gate.inspection.terms import Terms, Told

NAME = "api.example"
ANY = Contract()
Listed = list[tuple[str, str]]


def fields(method: str = "GET", path: str = "/a/x", *more: tuple[str, str], authority: str = NAME) -> Listed:
    return [(":method", method), (":scheme", "https"), (":authority", authority), (":path", path), *more]


def frame(kind: int, flags: int, stream: int, said: bytes = b"") -> bytes:
    return HEAD.pack(len(said) >> 16, len(said) & 0xFFFF, kind, flags, stream) + said


GREETING = PREFACE + frame(SETTINGS, 0, 0)


class Trial:
    """`answer` is what the server does with each of its events."""

    def __init__(
        self, contract: Contract = ANY, *, most: int = 1 << 26, secrets: Any = None, scan: Any = None,
        answer: Callable[[Trial, Event], object] | None = None, clock: Callable[[], float] = lambda: 1.0,
    ) -> None:  # fmt: skip
        self.told: list[Told] = []
        self.conversation = Conversation(
            Terms(NAME, 443, True, False, contract, most), self.told.append, secrets, scan, clock
        )
        self.client = H2Connection(H2Configuration(client_side=True, header_encoding="utf-8"))
        self.server = H2Connection(H2Configuration(client_side=False, header_encoding="utf-8"))
        self.client.initiate_connection()
        self.server.initiate_connection()
        self.answer = answer or greeting
        self.heard: list[Event] = []  # by the client
        self.arrived: list[Event] = []  # at the server
        self.reads = True  # whether the client takes what it gets
        self.most_in_flight = 0
        self.goodbye: int | None = None  # the code with which the client was left

    def turn(self) -> Trial:
        """Until nobody has anything to say."""
        conversation = self.conversation
        for _ in range(100_000):
            moved = self._client_says() | self._server_says()
            conversation.go_on()
            self.most_in_flight = max(self.most_in_flight, conversation.in_flight)
            moved |= self._server_hears() | self._client_hears()
            if not (moved or conversation.goes_on):
                return self
        raise AssertionError("it never comes to rest")

    def _client_says(self) -> bool:
        said = self.client.data_to_send()
        if said and not self.conversation.over:
            self.conversation.client_said(said)
        return bool(said)

    def _server_says(self) -> bool:
        said = self.server.data_to_send()
        if said and not self.conversation.over:
            self.conversation.server_said(said)
        return bool(said)

    def _server_hears(self) -> bool:
        said = bytes(self.conversation.to_server)
        self.conversation.to_server.clear()
        for event in self.server.receive_data(said) if said else ():
            self.arrived.append(event)
            self.answer(self, event)
        return bool(said)

    def _client_hears(self) -> bool:
        if not self.reads:
            return False
        said = bytes(self.conversation.to_client)
        self.conversation.to_client.clear()
        rest, goodbye = without_goodbye(said)
        self.goodbye = self.goodbye if goodbye is None else goodbye
        for event in self.client.receive_data(rest) if rest else ():
            self.heard.append(event)
            if isinstance(event, DataReceived):
                self.client.acknowledge_received_data(event.flow_controlled_length or 0, event.stream_id or 0)
        return bool(said)

    def ask(self, number: int, said: Sequence[tuple[str, str]], body: bytes = b"", *, ends: bool = True) -> Trial:
        self.client.send_headers(number, list(said), end_stream=ends and not body)
        for at in range(0, len(body), 16384):
            piece = body[at : at + 16384]
            self.client.send_data(number, piece, end_stream=ends and at + len(piece) == len(body))
        return self.turn()

    def fields_heard(self, number: int) -> dict[str, str]:
        """The fields of all heads and trailers that the client got on that stream."""
        found = [each for each in self.heard if getattr(each, "stream_id", 0) == number and hasattr(each, "headers")]
        return {str(name): str(value) for each in found for name, value in each.headers or ()}

    def content(self, number: int, of: list[Event] | None = None) -> bytes:
        events = self.heard if of is None else of
        return b"".join(
            each.data or b"" for each in events if isinstance(each, DataReceived) and each.stream_id == number
        )

    def resets(self, of: list[Event] | None = None) -> list[tuple[int, int]]:
        events = self.heard if of is None else of
        return [(each.stream_id or 0, int(each.error_code or 0)) for each in events if isinstance(each, StreamReset)]


def greeting(trial: Trial, event: Event) -> None:
    """Says hello to each whole request."""
    if isinstance(event, DataReceived):
        trial.server.acknowledge_received_data(event.flow_controlled_length or 0, event.stream_id or 0)
    if isinstance(event, StreamEnded):
        trial.server.send_headers(event.stream_id or 0, [(":status", "200"), ("alt-svc", 'h3=":443"')])
        trial.server.send_data(event.stream_id or 0, b"hello", end_stream=True)


def without_goodbye(said: bytes) -> tuple[bytes, int | None]:
    """These frames without a GOAWAY, after which the library takes no more; and its code."""
    at, rest, code = 0, b"", None
    while at + 9 <= len(said):
        high, low, kind, _, _ = HEAD.unpack_from(said, at)
        size = 9 + (high << 16 | low)
        if len(said) < at + size:  # cut off with the connection
            break
        if kind == GOAWAY:
            code = int(struct.unpack_from("!I", said, at + 13)[0])
        else:
            rest += said[at : at + size]
        at += size
    return rest, code
