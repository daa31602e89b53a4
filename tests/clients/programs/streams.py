"""streams.py HOST: asyncio's own streams, TLS and no library: GET / over what looks like a direct connection."""

import asyncio
import ssl
import sys


async def main(host: str) -> None:
    reader, writer = await asyncio.open_connection(host, 443, ssl=ssl.create_default_context())
    writer.write(f"GET / HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode())
    print((await reader.read()).decode())
    writer.close()


asyncio.run(main(sys.argv[1]))
