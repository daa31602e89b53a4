"""Runs in the internet: servers of a few lines, and a tap. `python listeners.py TAP DEVICE [ADDRESS:PORT:KIND ...]`

The tap is a packet socket on the device: one line of JSON in the file TAP for each first packet of a TCP connection,
and for every datagram, ICMP message and multicast that comes in there; with TAP "" there is none. Says "ready" when all
listen. Sends each line of its stdin as a datagram to the MARKS, so that whoever reads the tap knows how far it has
come; ends with its stdin.
"""

from __future__ import annotations

import asyncio
import json
import socket
import struct
import sys
import threading
from typing import Any, TextIO

from places import GREETING, MARKS  # type: ignore[import-not-found, unused-ignore]  # beside this file

ETH_P_ALL, PACKET_OUTGOING = 3, 4
TCP, UDP = 6, 17
SYN, ACK = 2, 16


def seen(frame: bytes) -> dict[str, object] | None:
    """What the tap writes of one Ethernet frame: None of what goes on from a connection that it has written of."""
    if frame[12:14] == b"\x08\x00":
        packet, length, protocol = frame[14:], (frame[14] & 15) * 4, frame[23]
        to = socket.inet_ntop(socket.AF_INET, packet[16:20])
    elif frame[12:14] == b"\x86\xdd":
        packet, length, protocol = frame[14:], 40, frame[20]
        to = socket.inet_ntop(socket.AF_INET6, packet[24:40])
    else:
        return {"protocol": -1, "to": "", "port": 0, "data": ""}
    body = packet[length:]
    port = struct.unpack("!H", body[2:4])[0] if protocol in (TCP, UDP) else 0
    if protocol == TCP and body[13] & (SYN | ACK) != SYN:
        return None
    return {"protocol": protocol, "to": to, "port": port, "data": body[8:200].hex() if protocol == UDP else ""}


def tap(out: TextIO, device: str) -> None:
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL)) as wire:
        wire.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 22)
        wire.bind((device, 0))
        while True:
            frame, address = wire.recvfrom(400)
            if address[2] != PACKET_OUTGOING and (line := seen(frame)):  # on loopback each is seen twice
                out.write(json.dumps(line) + "\n")
                out.flush()


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(1 << 16):
            writer.write(data)
            await writer.drain()
    except ConnectionError:
        pass
    finally:
        writer.close()


async def greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(GREETING)
    await echo(reader, writer)


async def drain(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    total = 0
    while data := await reader.read(1 << 16):
        total += len(data)
    writer.write(b"%d\n" % total)
    writer.close()


class Sink(asyncio.DatagramProtocol):
    """Takes what comes, so that the kernel has nothing to say about it."""


class Datagrams(asyncio.DatagramProtocol):
    def connection_made(self, transport: Any) -> None:
        self.transport = transport

    def datagram_received(self, data: bytes, address: Any) -> None:
        self.transport.sendto(data, address)


KINDS = {"echo": echo, "greet": greet, "drain": drain}


async def serve(wanted: list[str]) -> None:
    loop = asyncio.get_running_loop()
    for each in wanted:
        address, port, kind = each.rsplit(":", 2)
        if kind == "udp":
            await loop.create_datagram_endpoint(Datagrams, (address, int(port)))
        elif kind == "sink":
            await loop.create_datagram_endpoint(Sink, (address, int(port)))
        else:
            await asyncio.start_server(KINDS[kind], address, int(port), backlog=4096)
    print("ready", flush=True)
    await loop.run_in_executor(None, mark)


def mark() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as out:
        for line in sys.stdin:
            for each in MARKS:
                out.sendto(line.strip().encode(), each)


def main() -> None:
    if sys.argv[1]:
        out = open(sys.argv[1], "a", encoding="utf-8")  # noqa: SIM115 (the thread's, until the process ends)
        threading.Thread(target=tap, args=(out, sys.argv[2]), daemon=True).start()
    asyncio.run(serve(sys.argv[3:]))


if __name__ == "__main__":
    main()
