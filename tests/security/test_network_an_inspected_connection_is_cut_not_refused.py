"""Claim: a connection to an inspected host that was kept is cut when its grant is taken away: no word of a request on
it arrives, and none is answered; and an answer that breaks in the middle ends its connection, so that nobody takes half
of it for whole, or what the inspector says for a part of it.
"""

from __future__ import annotations

import json
import socket
import textwrap
from contextlib import suppress
from pathlib import Path

import pytest

from _support.inspected import NAME, Asking, Server, request, tls_server
from _support.internet import Internet
from _support.internet.host import host_program
from pysandbox.compile.plan import Contract
from pysandbox.gate.inspector import InspectorProcess

from .harness import wait_until

KEEPING = textwrap.dedent("""
    import socket, ssl, sys
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    def ask(tls, path):
        tls.sendall(f"GET {path} HTTP/1.1\\r\\nHost: origin.example\\r\\n\\r\\n".encode())
        return tls.recv(4096)[9:12].decode() or "closed"
    near = socket.create_connection(("origin.example", 443), 20)
    with context.wrap_socket(near, server_hostname="origin.example") as tls:
        print(ask(tls, "/"), flush=True)
        sys.stdin.readline()
        try:
            print(ask(tls, "/later"), flush=True)
        except OSError as error:
            print(type(error).__name__, flush=True)
""")
HOST = textwrap.dedent("""
    import json, sys
    from pysandbox import PIPE, Cage, Policy
    ca, client, taken = sys.argv[1:]
    policy = Policy(hosts=[{"domain": "origin.example", "methods": ["GET"]}], proxy_upstream_ca=[ca])
    with Cage(policy) as cage:
        with cage.spawn(["/usr/bin/python3", "-c", client], stdin=PIPE, stdout=PIPE) as process:
            first = process.stdout.readline().decode().strip()
            if taken == "taken":
                cage.restrict_network([])
            process.stdin.write(b"go on\\n")
            process.stdin.close()
            print(json.dumps([first, process.stdout.readline().decode().strip()]), flush=True)
""")


@pytest.mark.parametrize("taken", ["left", "taken"])
def test_a_kept_connection_ends_with_its_grant(taken: str, net: Internet) -> None:
    with host_program(net.space, HOST, net.ca, KEEPING, taken) as process:
        said, _ = process.communicate(timeout=120)
    first, later = json.loads(said)

    assert first == "200"
    if taken == "left":  # the control
        assert later == "404"
    else:
        assert later in ("ConnectionResetError", "BrokenPipeError", "SSLEOFError", "closed")
    assert any("/later" in line for line in net.requests("origin")) == (taken == "left")


class Breaking(Server):
    """Says this to a request, and hangs up: with TLS's own goodbye, or without."""

    said = b""
    politely = True

    def _serve(self, far: socket.socket) -> None:
        with suppress(OSError), self.context.wrap_socket(far, server_side=True) as tls:
            self.heard += tls.recv(65536)
            tls.sendall(self.said)
            if self.politely:
                tls.unwrap()


CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
BROKEN = {
    "a body that is too short": b"HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\nhalf",
    "a chunk that is too short": CHUNKED + b"5\r\nhal",
    "no last chunk": CHUNKED + b"4\r\nhalf\r\n",
    "a size that is none": CHUNKED + b"4\r\nhalf\r\nHTTP/1.1 502 Bad Gateway\r\n\r\n",
    "a chunk that is too long": CHUNKED + b"4\r\nhalf!\r\n0\r\n\r\n",
    "a trailer that frames": CHUNKED + b"4\r\nhalf\r\n0\r\nContent-Length: 4\r\n\r\n",
}


@pytest.mark.parametrize("politely", [True, False])
@pytest.mark.parametrize("broken", [*BROKEN, ""])
def test_half_an_answer_never_looks_whole(
    broken: str, politely: bool, inspector: InspectorProcess, tmp_path: Path
) -> None:
    server = tls_server(tmp_path, Breaking)
    server.said, server.politely = BROKEN.get(broken, CHUNKED + b"4\r\nhalf\r\n0\r\n\r\n"), politely
    asking, heard = Asking(inspector, Contract(("GET",)), str(tmp_path / f"{NAME}.pem")), b""
    with asking.client(server) as tls:
        tls.sendall(request())
        with suppress(OSError):
            while part := tls.recv(65536):
                heard += part
    assert wait_until(lambda: len(asking.ended) == 1, 20)

    assert server.heard.startswith(b"GET / ")
    if not broken:  # the control
        assert heard.endswith(b"half\r\n0\r\n\r\n")
        return
    assert asking.ended == [True]  # with a reset: the gatekeeper is told so
    assert heard.startswith(b"HTTP/1.1 200 ") or heard == b""
    assert b"HTTP/1.1 5" not in heard and not heard.endswith(b"0\r\n\r\n"), heard
