"""websocket_server.py ADDRESS CERTIFICATE KEY LOG: echoes at wss://ADDRESS:8443 and ws://ADDRESS:8080, as websockets
does it with all its defaults, and writes a line of JSON for each handshake and each message it was sent.

Says "ready"; ends with its stdin. `big N` is answered with N bytes in three frames, `count N` with N messages.
"""

from __future__ import annotations

import asyncio
import json
import ssl
import sys
from typing import Any

from websockets.asyncio.server import ServerConnection, serve


async def main(address: str, certificate: str, key: str, log: str) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    out = open(log, "a", encoding="utf-8")  # noqa: SIM115 (until the process ends)

    def tell(**said: object) -> None:
        out.write(json.dumps(said) + "\n")
        out.flush()

    async def talk(socket: ServerConnection) -> None:
        assert socket.request is not None
        tell(path=socket.request.path, fields=dict(socket.request.headers.raw_items()))
        async for said in socket:
            tell(size=len(said), text=said[:200] if isinstance(said, str) else said[:200].hex())
            word, _, number = said.partition(" ") if isinstance(said, str) else ("", "", "")
            if word == "big":
                await socket.send(["x" * (int(number) // 3 + 1)] * 3)
            elif word == "count":
                for each in range(int(number)):
                    await socket.send(str(each))
            else:
                await socket.send(said)

    options: dict[str, Any] = {"subprotocols": ["chat"], "max_size": 1 << 25}
    async with serve(talk, address, 8443, ssl=context, **options), serve(talk, address, 8080, **options):
        print("ready", flush=True)
        await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
