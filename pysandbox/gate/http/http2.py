"""HTTP/2 with prior knowledge (RFC 9113, 3.3), which the gatekeeper does not read: such a client is refused in HTTP/2,
with the advice to use HTTP/1.1. Inside TLS it is not seen, and passes. Pure."""

from __future__ import annotations

import struct

import h11

WHY = "HTTP/2 without TLS is not looked at here; use HTTP/1.1"
FRAME = struct.Struct("!BHBBI")  # a length of 24 bits, the type, flags, the stream
SETTINGS, GOAWAY = 4, 7
HTTP_1_1_REQUIRED = 0xD


def is_preface(request: h11.Request) -> bool:
    """Whether these bytes begin a preface of HTTP/2. Its first line is an HTTP/1 request on purpose, so that a server
    of HTTP/1 understands enough to refuse it."""
    return (request.method, request.target, request.http_version) == (b"PRI", b"*", b"2.0")


def refusal(text: str = WHY) -> bytes:
    """A server's preface, which is a SETTINGS frame, and a GOAWAY that says that no stream was worked on."""
    last_stream = 0
    return _frame(SETTINGS, b"") + _frame(
        GOAWAY, struct.pack("!II", last_stream, HTTP_1_1_REQUIRED) + f"pysandbox: {text}".encode()
    )


def _frame(kind: int, body: bytes) -> bytes:
    return FRAME.pack(len(body) >> 16, len(body) & 0xFFFF, kind, 0, 0) + body
