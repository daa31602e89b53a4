"""The other end of every connection: server.py ADDRESS PORT. Sends each frame back, and looks whose token it has.

A connection belongs to the token of its first frame. Prints "ready", and after its stdin has ended, one line of JSON:
what was found, and the most connections there ever were at once.
"""

from __future__ import annotations

import asyncio
import json
import struct
import sys

TOKEN = 16
found: list[str] = []
open_now = most = 0


async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    global open_now, most
    open_now += 1
    most = max(most, open_now)
    owner = b""
    try:
        while True:
            head = await reader.readexactly(4)
            body = await reader.readexactly(struct.unpack("!I", head)[0])
            owner = owner or body[:TOKEN]
            if body[:TOKEN] != owner:
                found.append(f"a connection of {owner.hex()} carries a frame of {body[:TOKEN].hex()}")
            writer.write(head + body)
            await writer.drain()
    except (asyncio.IncompleteReadError, ConnectionError):
        pass
    finally:
        open_now -= 1
        writer.close()


async def main() -> None:
    server = await asyncio.start_server(serve, sys.argv[1], int(sys.argv[2]), backlog=4096, limit=1 << 20)
    async with server:
        print("ready", flush=True)
        await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
        print(json.dumps({"found": found, "most": most, "open": open_now}), flush=True)


asyncio.run(main())
