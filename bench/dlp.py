"""What leak detection costs, held against the bars of its issue: python -m bench.dlp

Times are CPU seconds of this process, each the best of some rounds: the scan of the mixed corpus, of a request of
headers alone, of 8 MiB of JSON, and what a body of 8 MiB of each kind takes of memory. The corpus is made here by a
seed: chat, code, prose, base64, bytes, logs with hexadecimal. A bar that is missed is said to be.
"""

from __future__ import annotations

import argparse
import base64
import json
import random
import time
import tracemalloc
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from pysandbox.compile.plan import Contract
from pysandbox.dlp.engine import scan
from pysandbox.gate.inspection.exchange import Exchange
from pysandbox.gate.inspection.room import Room
from pysandbox.gate.inspection.scanning import ConnectionScan, PlanScan
from pysandbox.gate.inspection.terms import Terms

MIB = 1 << 20
KEY = bytes(16)
GIVEN = {
    "depth": 32,
    "whole": 8 * MIB,
    "scopes": (),
    "warns": False,
    "budget": 1 << 40,
    "detectors": (),
}
REQUEST = (
    b"GET /v1/items?page=2&per_page=100&sort=updated HTTP/1.1\r\nHost: api.example\r\nUser-Agent: requests/2.32\r\n"
    b"Accept-Encoding: gzip, deflate\r\nAccept: application/json\r\nConnection: keep-alive\r\nX-Request-Id: 7\r\n\r\n"
)
MANY = 500  # requests of headers alone
OK = b"HTTP/1.1 204 No Content\r\n\r\n"


def corpus(size: int) -> dict[str, bytes]:
    """Kinds of what is sent, `size` bytes of each."""
    drawn = random.Random(14)
    sources = [path.read_text() for path in sorted(Path(__file__).parent.rglob("*.py"))]
    words = " ".join(sources).split()
    prose = " ".join(drawn.choice(words) for _ in range(size // 4))
    code = "\n".join(sources)
    chat = [{"role": "user", "content": prose[at : at + 900]} for at in range(0, size, 900)]
    log = "\n".join(f"{at:08d} commit {drawn.randbytes(20).hex()} ok" for at in range(size // 60))
    made = {
        "chat": json.dumps({"messages": chat}).encode(), "code": (code * (size // len(code) + 1)).encode(),
        "prose": prose.encode(), "base64": base64.b64encode(drawn.randbytes(size)), "bytes": drawn.randbytes(size),
        "hex log": log.encode(),
    }  # fmt: skip
    return {name: said[:size] for name, said in made.items()}


def best(rounds: int, work: Callable[[], object]) -> float:
    """CPU seconds of the fastest."""
    taken = []
    for _ in range(rounds):
        begun = time.process_time()
        work()
        taken.append(time.process_time() - begun)
    return min(taken)


def talk(scanned: bool) -> Callable[[bytes], Exchange]:
    """A conversation with one server, which takes requests."""
    held = ConnectionScan(PlanScan(GIVEN), "api.example", (), print, Room()) if scanned else None
    exchange = Exchange(Terms("api.example", 443, True, False, Contract(), 64 * MIB), print, None, held)

    def ask(said: bytes) -> Exchange:
        for at in range(0, len(said), 65536):
            exchange.client_said(said[at : at + 65536])
        while exchange.goes_on:
            exchange.go_on()
            exchange.to_server.clear()
        exchange.to_server.clear()
        exchange.server_said(OK)
        exchange.to_client.clear()
        return exchange

    return ask


def many(ask: Callable[[bytes], object]) -> None:
    for _ in range(MANY):
        ask(REQUEST)


def results(rounds: int) -> Iterator[tuple[str, float, float, str]]:
    """(what, measured, its bar, unit); a rate is to be higher, all else lower."""
    kinds = corpus(4 * MIB)
    total = 0.0
    for name, said in kinds.items():
        taken = best(rounds, partial(scan, said, KEY))
        total += taken
        yield f"scan, {name}", len(said) / taken / 1e6, 100.0, "MB/s"
    yield "scan, mixed", sum(map(len, kinds.values())) / total / 1e6, 100.0, "MB/s"
    times = [best(rounds, partial(many, talk(on))) / MANY for on in (True, False)]
    yield "headers alone, added", (times[0] - times[1]) * 1e6, 60.0, "us"
    body = (kinds["chat"] * 2)[: 8 * MIB]
    large = b"POST / HTTP/1.1\r\nHost: api.example\r\nContent-Length: %d\r\n\r\n" % len(body) + body
    times = [best(rounds, partial(talk(on), large)) for on in (True, False)]
    yield "8 MiB of JSON, added", (times[0] - times[1]) * 1e3, 120.0, "ms"
    for name, said in kinds.items():
        body = (said * 2)[: 8 * MIB]
        large = b"POST / HTTP/1.1\r\nHost: api.example\r\nContent-Length: %d\r\n\r\n" % len(body) + body
        ask = talk(True)
        tracemalloc.start()
        ask(large)
        yield f"memory of 8 MiB, {name}", tracemalloc.get_traced_memory()[1] / len(body), 2.2, "bodies"
        tracemalloc.stop()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.dlp")
    parser.add_argument("--rounds", type=int, default=5)
    for what, measured, bar, unit in results(parser.parse_args().rounds):
        kept = measured >= bar if unit == "MB/s" else measured <= bar
        print(f"{what:26}{measured:10.1f} {unit:7} (bar {bar:g}: {'kept' if kept else 'missed'})", flush=True)


if __name__ == "__main__":
    main()
