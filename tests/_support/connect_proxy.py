"""A proxy that knows CONNECT and nothing else, and what it was asked: python connect_proxy.py ADDRESS PORT LOG [MAP...]

Said in so many words, since the real ones (squid, tinyproxy) hide what they got. `MAP` is NAME=ADDRESS: names that only
this proxy knows. A request for the name `refused.example` gets 403; with `AUTH=...` as one of the words, one without
that Authorization gets 407.
"""

from __future__ import annotations

import json
import socket
import sys
import threading
from contextlib import suppress


def pump(one: socket.socket, other: socket.socket) -> None:
    with suppress(OSError):
        while said := one.recv(65536):
            other.sendall(said)
    with suppress(OSError):
        other.shutdown(socket.SHUT_WR)


def serve(near: socket.socket, log: str, known: dict[str, str], wanted: str) -> None:
    with near:
        said = b""
        while b"\r\n\r\n" not in said:
            part = near.recv(1)
            if not part:
                return
            said += part
        head = said.decode("latin-1")
        with open(log, "a") as file:
            file.write(json.dumps(head) + "\n")
        method, place, _ = head.split("\r\n")[0].split(" ")
        host, _, port = place.rpartition(":")
        if wanted and f"Proxy-Authorization: {wanted}\r\n" not in head:
            near.sendall(b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n")
        elif method != "CONNECT" or host == "refused.example":
            near.sendall(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 3\r\n\r\nno\n")
        else:
            with socket.create_connection((known.get(host, host), int(port)), 10) as far:
                near.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
                threading.Thread(target=pump, args=(far, near), daemon=True).start()
                pump(near, far)
                with suppress(OSError):
                    far.settimeout(2)
                    while far.recv(1):
                        pass


def quietly(*what: object) -> None:
    with suppress(OSError, ValueError):
        serve(*what)  # type: ignore[arg-type]


def main() -> None:
    address, port, log, *words = sys.argv[1:]
    pairs = [each.partition("=") for each in words]
    known = {name: value for name, _, value in pairs if name != "AUTH"}
    wanted = next((value for name, _, value in pairs if name == "AUTH"), "")
    listener = socket.create_server((address, int(port)))
    print("ready", flush=True)
    while True:
        near = listener.accept()[0]
        threading.Thread(target=quietly, args=(near, log, known, wanted), daemon=True).start()


if __name__ == "__main__":
    main()
