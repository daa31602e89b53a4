"""START HERE: the process of the inspector. It reads what it needs, tries once all that it will do, gives everything
up, and only then looks at its first byte.

What it gives up (csrc/host/confine): every file, every way to make a socket, a connection, a process or a program, and
every signal to another. What it keeps is the channel to the host program, the sockets that come through it, and a pipe
for its last words. It ends with the channel.
"""

from __future__ import annotations

import base64
import gc
import gzip
import os
import socket
import ssl
import sys

from pysandbox._native import lib
from pysandbox.compile.plan import Contract
from pysandbox.gate import contract as contracts
from pysandbox.gate.inspection.ca import SigningAuthority
from pysandbox.gate.inspection.exchange import Exchange
from pysandbox.gate.inspection.frames import TEXT, frame
from pysandbox.gate.inspection.http2.conversation import Conversation
from pysandbox.gate.inspection.http2.frames import END_HEADERS, END_STREAM, HEAD, HEADERS, PREFACE, SETTINGS
from pysandbox.gate.inspection.http2.side import Http2Side
from pysandbox.gate.inspection.revoked import upstream_context
from pysandbox.gate.inspection.roots import host_roots
from pysandbox.gate.inspection.serving import Inspector
from pysandbox.gate.inspection.sides import HTTP1, HTTP2, ClientSide, ServerSide
from pysandbox.gate.inspection.terms import Terms
from pysandbox.gate.last_words import say_last_words
from pysandbox.gate.own_limits import set_own_limits
from pysandbox.gate.refusal import answer
from pysandbox.policy.names import canonical

NAME = "pysandbox.invalid"
OWN = (("rehearsed", ("rehearsed",), "rehearsed.{1,9}(?P<credential>[0-9]{8})", (), 0, 64, 0),)  # as a policy's own


def main(channel_fd: int, roots_fd: int, scans: int) -> None:
    host = socket.socket(fileno=channel_fd)
    roots = host_roots()
    os.write(roots_fd, roots.encode())
    os.close(roots_fd)
    set_own_limits()
    inspector = Inspector(host, roots)
    _rehearse()
    if scans:
        _rehearse_scan()
    gc.freeze()  # what is there by now stays: it is not looked through again
    if failed := lib.psb_confine_inspector():
        raise OSError(-failed, f"the inspector cannot confine itself: {os.strerror(-failed)}")
    say_last_words()
    inspector.run()


def _rehearse() -> None:
    """Does everything once, because nothing can be loaded later: modules, codecs, what OpenSSL reads at first use."""
    canonical("xn--bcher-kva.example"), canonical("b\N{LATIN SMALL LETTER U WITH DIAERESIS}cher.example")
    contract = Contract(  # every column
        ("GET",), ("/a/",), ("text/plain",), 1, (443,), True, ("github_pat",), private=("10.1.2.3",)
    )  # fmt: skip
    patch = contracts.fix(NAME, contract, "methods", "POST")
    contracts.fix(NAME, contract, "max_request_bytes", "2")
    answer(415, "contract-refused", "rehearsed", rule="host.methods", patch=patch, as_json=True)
    authority = SigningAuthority([NAME])
    near, far = socket.socketpair()
    for each in (near, far):
        each.setblocking(False)
    authority.context(f"www.{NAME}")  # so that the next one is made as all will be
    server = ClientSide(near, authority.context(NAME), b"")
    server.agree(HTTP2.encode())
    client = ServerSide(far, upstream_context(authority.pem.decode()), NAME, None, (HTTP2, HTTP1))
    for _ in range(10):
        client.handshake()
        server.handshake()
        if client.ready and server.ready:
            break
    client.write(bytearray(b"rehearsed"))
    if not client.ready or server.read() != b"rehearsed" or client.protocol != HTTP2:
        raise ssl.SSLError("the inspector's TLS does not work on this host")
    _rehearse_websocket()
    _rehearse_http2()
    server.end()
    client.read()
    client.close()
    server.close()


def _rehearse_websocket() -> None:
    terms = Terms(NAME, 443, True, False, Contract(websocket=True), 1)
    exchange = Exchange(terms, lambda _: None)
    exchange.client_said(
        b"GET / HTTP/1.1\r\nHost: %s\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
        b"Sec-WebSocket-Key: %s\r\n\r\n" % (NAME.encode(), base64.b64encode(bytes(16)))
    )
    exchange.server_said(b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
                         b"Sec-WebSocket-Accept: ICX+Yqv66kxgM0FcWaLWlFLwTAI=\r\n\r\n")  # fmt: skip
    exchange.client_said(frame(TEXT, b"1", masked=True) + frame(TEXT, b"22", masked=True))
    if not exchange.to_client.startswith(b"HTTP/1.1 101 ") or not exchange.over:
        raise ssl.SSLError("the inspector does not know a WebSocket on this host")


def _rehearse_http2() -> None:
    """A request that is answered, and one that makes no sense."""
    terms = Terms(NAME, 443, True, False, Contract(("GET",)), 1)
    conversation, server = Conversation(terms, lambda _: None), Http2Side(is_client=True)
    ask, field = b"\x82\x87\x84\x41" + bytes((len(NAME),)) + NAME.encode(), b"\x00\x01x\x01y"
    settings, headers = HEAD.pack(0, 0, SETTINGS, 0, 0), HEAD.pack(0, len(ask), HEADERS, END_HEADERS | END_STREAM, 1)
    conversation.client_said(PREFACE + settings + headers + ask)
    server.come += conversation.to_server
    server.read()
    server.h2.send_headers(1, [(b":status", b"200")])
    server.h2.send_data(1, b"rehearsed", end_stream=True)
    server.flush()
    conversation.server_said(bytes(server.to))
    if conversation.answered != 1 or b"rehearsed" not in conversation.to_client:
        raise ssl.SSLError("the inspector does not know HTTP/2 on this host")
    conversation.client_said(HEAD.pack(0, len(field), HEADERS, END_HEADERS, 2) + field)
    if not conversation.over:
        raise ssl.SSLError("the inspector takes anything for HTTP/2 on this host")


def _rehearse_scan() -> None:
    from pysandbox.dlp import libraries
    from pysandbox.dlp.detectors import founding
    from pysandbox.dlp.opaque import stretches
    from pysandbox.gate.inspection.scanning import PlanScan

    plan = PlanScan({"depth": 32, "whole": 0, "scopes": (), "warns": False, "budget": 0, "detectors": OWN}).of_cage(
        {"PYSANDBOX_CANARY_NPM_TOKEN": "npm_" + "0123456789" * 4}
    )
    token = founding.ROWS[0].hits[0]
    for said in (
        token,
        b"rehearsed:12345678",
        base64.b64encode(gzip.compress(token)),
        token.decode().encode("utf-16"),
        b"%67" + token[1:],
    ):
        if not plan.found(said):
            raise ValueError("the inspector finds no credential")
    contracts.fix(NAME, Contract(), "dlp.session-budget", contracts.LISTED_BY_A_FIX)
    if len(list(stretches(bytes(range(256)) + b"%41" * 20 + b"0123456789abcdef" * 3))) != 3:
        raise ValueError("the inspector does not know what is opaque")
    for stream in (libraries.brotli_stream(), libraries.zstd_stream()):
        if stream is not None:
            stream.decompress(b"", 1)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
