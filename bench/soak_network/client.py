"""Runs in a cage, on the standard library alone: client.py HOST PORT TOKEN CONNECTIONS SECONDS

Each connection is one thread, which dials, sends frames that begin with the cage's token, demands them back byte for
byte, rests, and after a few of them dials anew, by the next way out. Prints one line of JSON at the end.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import socket
import struct
import sys
import threading
import time

PATIENCE = 30.0
LENGTH = struct.Struct("!I")
LARGEST = 48 << 10

host, port, token, count, seconds = sys.argv[1], int(sys.argv[2]), bytes.fromhex(sys.argv[3]), *map(int, sys.argv[4:6])
stall = float(sys.argv[6])  # seconds an answer may take
report: dict[str, list[object]] = {"stalls": [], "wrong": [], "failed": []}
done = {"connections": 0, "frames": 0, "bytes": 0}
lock = threading.Lock()
until = time.monotonic() + seconds


def door(number: int) -> socket.socket:
    return socket.create_connection(("198.18.0.1", number), PATIENCE)


def plain() -> socket.socket:
    return socket.create_connection((host, port), PATIENCE)


def socks() -> socket.socket:
    s = door(1080)
    s.sendall(b"\5\1\0")
    exactly(s, 2)
    s.sendall(b"\5\1\0\3" + bytes([len(host)]) + host.encode() + struct.pack("!H", port))
    answer = exactly(s, 10)
    if answer[1]:
        raise OSError(f"SOCKS says {answer[1]}")
    return s


def connect() -> socket.socket:
    s = door(3128)
    s.sendall(f"CONNECT {host}:{port} HTTP/1.1\r\nHost: {host}:{port}\r\n\r\n".encode())
    answer = b""
    while not answer.endswith(b"\r\n\r\n"):
        answer += exactly(s, 1)
    if b" 200 " not in answer.partition(b"\r\n")[0]:
        raise OSError(f"CONNECT says {answer!r}")
    return s


WAYS = (plain, socks, connect) if "ALL_PROXY" in os.environ else (plain,)


def exactly(s: socket.socket, size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        got = s.recv(size - len(data))
        if not got:
            raise OSError(f"ended after {len(data)} of {size} bytes")
        data += got
    return bytes(data)


def frame(number: int, chance: random.Random) -> bytes:
    size = chance.choice((0, 10, 200, 1000, 5000, LARGEST))
    pattern = hashlib.sha256(token + LENGTH.pack(number)).digest()
    body = token + (pattern * (size // len(pattern) + 1))[:size]
    return LENGTH.pack(len(body)) + body


def timed(began: float, what: str) -> None:
    took = time.monotonic() - began
    if took > stall:
        report["stalls"].append([began, took, what])


def one(number: int) -> None:
    """The life of one connection after the other."""
    chance = random.Random(token + bytes([number]))
    turn = number
    while time.monotonic() < until:
        way, turn = WAYS[turn % len(WAYS)], turn + 1
        began = time.monotonic()
        try:
            with way() as s:
                timed(began, f"dial, {way.__name__}")
                talk(s, chance, way.__name__)
        except OSError as error:
            report["failed"].append(f"{way.__name__}: {error} after {time.monotonic() - began:.1f} s")
            return


def talk(s: socket.socket, chance: random.Random, way: str) -> None:
    frames = sent = 0
    for frames in range(1, chance.randint(2, 10)):  # noqa: B007
        data = frame(chance.getrandbits(32), chance)
        began = time.monotonic()
        s.sendall(data)
        answer = exactly(s, len(data))
        timed(began, f"answer, {way}")
        if answer != data:
            report["wrong"].append(f"{way}: sent {data[:40].hex()} and got {answer[:40].hex()}")
        sent += len(data)
        if time.monotonic() >= until:
            break
        time.sleep(chance.uniform(0.2, 2.0))
    with lock:
        done["connections"] += 1
        done["frames"] += frames
        done["bytes"] += sent


threads = [threading.Thread(target=one, args=(number,)) for number in range(count)]
for each in threads:
    each.start()
for each in threads:
    each.join()
print(json.dumps({**report, **done}))
