"""events_server.py ADDRESS CERTIFICATE KEY: events of text/event-stream at https://ADDRESS:8443/events, each of which
is said only once its client has read the one before: it asks for /seen/N.

Says "ready"; ends with its stdin. The answer has no length, and three events.
"""

from __future__ import annotations

import ssl
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

SEEN = [threading.Event() for _ in range(3)]


def events() -> Iterator[bytes]:
    for number, seen in enumerate(SEEN):
        yield b"data: %d\n\n" % number
        if not seen.wait(60):
            return
    yield b"data: over\n\n"


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        if self.path.startswith("/seen/"):
            SEEN[int(self.path.removeprefix("/seen/"))].set()
            self.send_response(204)
            self.end_headers()
            return
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        for each in events():
            self.wfile.write(each)


def main(address: str, certificate: str, key: str) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    server = ThreadingHTTPServer((address, 8443), Handler)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print("ready", flush=True)
    with suppress(OSError):
        sys.stdin.read()


if __name__ == "__main__":
    main(*sys.argv[1:])
