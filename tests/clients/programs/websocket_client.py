"""websocket_client.py URL [MESSAGE ...]: sends each message and prints what comes back; `bytes:N` is N bytes, `wait:N`
reads N messages more. The last line is the code that the connection was closed with, or the status of a refusal."""

from __future__ import annotations

import sys

from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect


def main(url: str, *messages: str) -> None:
    try:
        with connect(url, subprotocols=["chat"], max_size=1 << 25) as socket:  # type: ignore[list-item]
            print(socket.subprotocol, socket.protocol.extensions)
            for each in messages:
                word, _, number = each.partition(":")
                if word == "wait":
                    print([socket.recv() for _ in range(int(number))][-1])
                    continue
                socket.send(bytes(int(number)) if word == "bytes" else each)
                said = socket.recv()
                print(len(said) if len(said) > 200 else said)
        print(socket.close_code)
    except ConnectionClosed as closed:
        print(closed.rcvd.code if closed.rcvd else "cut", closed.rcvd.reason if closed.rcvd else "")
    except InvalidStatus as refused:
        print(refused.response.status_code, refused.response.headers.get("x-pysandbox-rule"))


if __name__ == "__main__":
    main(*sys.argv[1:])
