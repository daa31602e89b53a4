"""Runs in the internet of the tests: a TLS server that serves many names, and writes down each that it is asked for.
`python names_of_hellos.py CERTIFICATE KEY LOG ADDRESS:PORT ...`. It has no key for the first hello of the attack, so it
asks for a second one (RFC 8446, 4.1.4), as a server does that is set to one curve.
"""

from __future__ import annotations

import socket
import ssl
import sys
import threading
from contextlib import suppress


def serve(listener: socket.socket, context: ssl.SSLContext) -> None:
    while True:
        far = listener.accept()[0]
        threading.Thread(target=answer, args=(far, context), daemon=True).start()


def answer(far: socket.socket, context: ssl.SSLContext) -> None:
    far.settimeout(30)
    with suppress(OSError), context.wrap_socket(far, server_side=True) as tls:
        while said := tls.recv(65536):
            tls.sendall(said)


def main() -> None:
    certificate, key, log, *places = sys.argv[1:]
    out = open(log, "a", encoding="utf-8", buffering=1)  # noqa: SIM115 (until the process ends)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    context.set_ecdh_curve("prime256v1")
    context.sni_callback = lambda _, name, __: print(name, file=out)
    for place in places:
        address, port = place.rsplit(":", 1)
        listener = socket.create_server((address, int(port)), backlog=64)
        threading.Thread(target=serve, args=(listener, context), daemon=True).start()
    print("ready", flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
