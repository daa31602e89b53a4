"""The opening handshake of a WebSocket (RFC 6455, section 4): what a client asks for, and whether its server has said
yes to that and to nothing else. Pure.

It is a request like any other until the server answers it with 101. Extensions are taken out of it, so none is agreed
on, and every frame that follows is readable (permessage-deflate would hide what is said).
"""

from __future__ import annotations

import base64
import hashlib
import re

from pysandbox.gate.inspection.heads import BadMessage, Field, Head, content_length, is_chunked
from pysandbox.shapes import NamedTuple

MAGIC = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
KEY = re.compile(rb"[A-Za-z0-9+/]{21}[AQgw]==")  # sixteen bytes, in one spelling
VERSION = [b"13"]
WEBSOCKET = [b"websocket"]
EXTENSIONS = frozenset((b"sec-websocket-extensions",))
SWITCHED: tuple[Field, ...] = ((b"connection", b"Connection", b"Upgrade"), (b"upgrade", b"Upgrade", b"websocket"))


class OtherVersion(Exception):
    """A request for a WebSocket that is none of RFC 6455."""


def is_asked(head: Head) -> bool:
    """Whether the request says in any way that it would be a WebSocket. Other upgrades are not passed on."""
    return any(each.startswith(b"websocket") for each in head.tokens(b"upgrade"))


class Handshake(NamedTuple):
    """A handshake that was sent, and what may be answered."""

    accept: bytes
    protocols: frozenset[bytes]

    @classmethod
    def of(cls, head: Head, *, has_body: bool) -> Handshake:
        """Raises BadMessage for a handshake that is none, or that is a request with more to it; OtherVersion."""
        if head.tokens(b"upgrade") != WEBSOCKET or head.first[0] != b"GET" or not head.minor:
            raise BadMessage("a WebSocket is asked for by GET, in HTTP/1.1, and by nothing beside it")
        connection = set(head.tokens(b"connection"))
        if b"upgrade" not in connection or connection - {b"upgrade", b"keep-alive"}:
            raise BadMessage("a WebSocket is asked for with Connection: Upgrade")
        if has_body:
            raise BadMessage("the handshake of a WebSocket with a body")
        if head.values(b"sec-websocket-version") != VERSION:
            raise OtherVersion("a WebSocket of another version than 13 is not looked at")
        keys = head.values(b"sec-websocket-key")
        if len(keys) != 1 or KEY.fullmatch(keys[0]) is None:
            raise BadMessage("Sec-WebSocket-Key is not sixteen bytes in base64, said once")
        digest = hashlib.sha1(keys[0] + MAGIC, usedforsecurity=False).digest()
        return cls(base64.b64encode(digest), frozenset(_protocols(head)))

    def check(self, head: Head) -> None:
        """The server's 101. Raises BadMessage."""
        if head.tokens(b"upgrade") != WEBSOCKET or b"upgrade" not in head.tokens(b"connection") or not head.minor:
            raise BadMessage("an upgrade to something other than a WebSocket")
        if head.values(b"sec-websocket-accept") != [self.accept]:
            raise BadMessage("Sec-WebSocket-Accept is not the answer to this handshake")
        if content_length(head) or is_chunked(head):  # some say 0, which is not passed on
            raise BadMessage("an upgrade with a body")
        if head.tokens(b"sec-websocket-extensions"):
            raise BadMessage("an extension of WebSocket that nobody asked for")
        chosen = head.values(b"sec-websocket-protocol")
        if len(chosen) > 1 or not self.protocols.issuperset(chosen):
            raise BadMessage("a protocol inside WebSocket that nobody asked for")


def _protocols(head: Head) -> list[bytes]:
    """As they are written: their letters count."""
    said = head.values(b"sec-websocket-protocol")
    return [each.strip(b" \t") for value in said for each in value.split(b",") if each.strip(b" \t")]
