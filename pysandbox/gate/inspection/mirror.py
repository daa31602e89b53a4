"""Which version of HTTP both sides of an inspected connection speak: the server chooses among what its client offers,
and the client is told that (ALPN, RFC 7301). Only then does it finish its handshake. So a client of gRPC has the HTTP/2
that it needs, and nobody is spoken to in a version that the other side would have to be translated to. Where the policy
says what a server is spoken to in, a client that does not speak it is told so.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Sequence

from pysandbox.gate.inspection.exchange import Exchange
from pysandbox.gate.inspection.http2.conversation import Conversation
from pysandbox.gate.inspection.leak import RequestScan
from pysandbox.gate.inspection.secrets import ConnectionSecrets
from pysandbox.gate.inspection.sides import HTTP1, HTTP2, ClientSide, PlainSide
from pysandbox.gate.inspection.terms import Terms, Told
from pysandbox.gate.tcp.sni import HelloReader, NotTls

AnyExchange = Exchange | Conversation
Mirror = Callable[[str], AnyExchange]
Parts = tuple[Terms, Callable[[Told], object], ConnectionSecrets | None, RequestScan | None]  # of either exchange


class NotSpoken(Exception):
    """The server is to be spoken to in a protocol that its client does not speak."""


class ClearSide(PlainSide):
    """Towards a server that is spoken to without TLS, whatever its client has. `offered`: what the client speaks."""

    def __init__(self, sock: socket.socket, protocol: str, offered: Sequence[str]) -> None:
        super().__init__(sock)
        self.protocol, self._offered, self.ready = protocol, offered, False

    def handshake(self) -> None:
        if self.protocol not in self._offered:
            spoken = "HTTP/2" if self.protocol == HTTP2 else "HTTP/1.1"
            raise NotSpoken(f"the server is spoken to in {spoken} (upstream_scheme), which its client does not offer")
        self.ready = True


def offered_by(said: bytes) -> tuple[str, ...]:
    """What the client's hello offers, of what is spoken here; HTTP/1.1 alone where it offers nothing."""
    try:
        hello = HelloReader().feed(said)
    except NotTls:
        hello = None
    alpn = hello.alpn if hello is not None else ()
    return tuple(each for each in (HTTP2, HTTP1) if each.encode() in alpn) or (HTTP1,)


def mirrored(parts: Parts, client: ClientSide, offered: Sequence[str], chosen: str) -> AnyExchange:
    """The client is told what its server has chosen; "" where there is no server. A client that offers HTTP/2 alone is
    spoken to in it all the same, to be told why nothing comes of it."""
    agreed = chosen if chosen in offered else HTTP1 if HTTP1 in offered else HTTP2
    client.agree(agreed.encode())
    if agreed == HTTP1:
        return Exchange(*parts)
    conversation = Conversation(*parts)
    if chosen and chosen != agreed:
        conversation.fail(502, "upstream-unreachable", f"{parts[0].host} speaks no HTTP/2, and its client nothing else")
    return conversation
