"""What leak detection says of ordinary traffic: python -m bench.dlp_shapes --mib 1024

Sessions of the shapes that agents send, made by a seed: chats with pictures to a model, lock files, SBOMs, pushes of
git packs and image layers, what pip and npm ask for, JSON of an API, telemetry. Of each: how many requests are refused,
and which share of the bytes is taken from the budget of its host (that of digests and UUIDs is another one). A push is
refused unless its host is listed; so it is sent both ways.
"""

from __future__ import annotations

import argparse
import base64
import json
import random
import uuid
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

from pysandbox.dlp.spending import Spending
from pysandbox.gate.inspection.bodies import OfLength
from pysandbox.gate.inspection.heads import Head
from pysandbox.gate.inspection.leak import Leak
from pysandbox.gate.inspection.room import Room
from pysandbox.gate.inspection.scanning import ConnectionScan, CredentialFound, PlanScan
from pysandbox.shapes import NamedTuple

BUDGET = 8192
GIVEN = {"depth": 32, "whole": 8 << 20, "scopes": (), "warns": False, "budget": BUDGET, "detectors": ()}
CHANCE = random.Random(14)
SOURCES = [path.read_text() for path in sorted(Path(__file__).parent.rglob("*.py"))]
WORDS = " ".join(SOURCES).split()


def prose(words: int) -> str:
    return " ".join(CHANCE.choices(WORDS, k=words))


def hexes(size: int) -> str:
    return CHANCE.randbytes(size).hex()


def chat() -> Iterator[bytes]:
    said: list[object] = []
    for turn in range(8):
        said.append({"role": "user", "content": prose(300) + CHANCE.choice(SOURCES)[:4000]})
        if turn % 3 == 0:
            url = "data:image/png;base64," + base64.b64encode(CHANCE.randbytes(700_000)).decode()
            said.append({"role": "user", "content": [{"type": "image_url", "image_url": {"url": url}}]})
        yield json.dumps({"model": "a-model-2026-01-01", "messages": said}).encode()


def pictures_for_urls() -> Iterator[bytes]:
    """In the other alphabet, which has the letters that most short tokens begin with."""
    for _ in range(4):
        row = {"name": prose(2), "data": base64.urlsafe_b64encode(CHANCE.randbytes(700_000)).decode()}
        yield json.dumps({"files": [row], "note": prose(40)}).encode()


def mail() -> Iterator[bytes]:
    """With an attachment, in lines of 76."""
    head = b"Content-Type: multipart/mixed; boundary=b\r\n\r\n--b\r\n\r\n" + prose(200).encode()
    file = b"Content-Transfer-Encoding: base64\r\n\r\n" + base64.encodebytes(CHANCE.randbytes(500_000))
    yield b"\r\n--b\r\n".join((head, file)) + b"--b--\r\n"


def chat_of_words() -> Iterator[bytes]:
    said: list[object] = []
    for _ in range(20):
        said.append({"role": "user", "content": prose(300) + CHANCE.choice(SOURCES)[:8000]})
        yield json.dumps({"messages": said, "session": str(uuid.UUID(int=CHANCE.getrandbits(128)))}).encode()


def lock_file() -> Iterator[bytes]:
    rows = {f"node_modules/{CHANCE.choice(WORDS)}-{at}": {
        "version": f"{at % 9}.{at % 7}.0", "resolved": f"https://registry.npmjs.org/package/-/package-{at}.tgz",
        "integrity": "sha512-" + base64.b64encode(CHANCE.randbytes(64)).decode(),
    } for at in range(400)}  # fmt: skip
    yield json.dumps({"lockfileVersion": 3, "packages": rows}, indent=2).encode()


def sbom() -> Iterator[bytes]:
    rows = [{
        "bom-ref": str(uuid.UUID(int=CHANCE.getrandbits(128))), "name": CHANCE.choice(WORDS), "version": f"1.{at}.0",
        "purl": f"pkg:pypi/package-{at}@1.{at}.0", "hashes": [{"alg": "SHA-256", "content": hexes(32)}],
        "licenses": [{"license": {"id": "Apache-2.0"}}], "description": prose(20),
    } for at in range(400)]  # fmt: skip
    yield json.dumps({"bomFormat": "CycloneDX", "components": rows}).encode()


def pack() -> Iterator[bytes]:
    objects = [zlib.compress(CHANCE.choice(SOURCES).encode()) for _ in range(100)]
    yield f"{hexes(20)} {hexes(20)} refs/heads/main\0 report-status".encode() + b"0000PACK" + b"".join(objects)


def layer() -> Iterator[bytes]:
    yield CHANCE.randbytes(3 << 20)


def pip() -> Iterator[bytes]:
    for _ in range(150):
        yield f"/packages/{hexes(1)}/{hexes(1)}/{hexes(30)}/{CHANCE.choice(WORDS)[:20]}-1.2.3-py3-none-any.whl".encode()


def npm() -> Iterator[bytes]:
    for at in range(500):
        yield f"/package-{at}/-/package-{at}-{at % 9}.1.{at % 13}.tgz".encode()


def api() -> Iterator[bytes]:
    for at in range(200):
        row = {
            "id": str(uuid.UUID(int=CHANCE.getrandbits(128))),
            "title": prose(12),
            "count": at,
            "tags": WORDS[at : at + 4],
        }
        yield json.dumps(
            {"rows": [row] * 3, "at": f"2026-11-23T18:00:{at % 60:02}.123456Z", "etag": hexes(16)}
        ).encode()


def telemetry() -> Iterator[bytes]:
    for _ in range(20):
        rows = [
            {"traceId": hexes(16), "spanId": hexes(8), "name": prose(3), "value": CHANCE.random()} for _ in range(20)
        ]
        yield json.dumps({"resourceSpans": rows}).encode()


def commits() -> Iterator[bytes]:
    yield json.dumps([{"sha": hexes(20), "message": prose(15)} for _ in range(800)]).encode()


class Shape(NamedTuple):
    host: str
    session: Callable[[], Iterator[bytes]]
    listed: bool = False
    in_path: bool = False


SHAPES = {
    "chat with pictures, a model's host": Shape("api.openai.com", chat),
    "files in base64 for URLs, listed": Shape("uploads.example", pictures_for_urls, listed=True),
    "mail with a file, listed": Shape("mail.example", mail, listed=True),
    "chat of words": Shape("chat.example", chat_of_words), "lock file": Shape("a.example", lock_file),
    "SBOM": Shape("b.example", sbom), "commits": Shape("c.example", commits),
    "pip": Shape("files.pythonhosted.org", pip, in_path=True), "npm": Shape("registry.npmjs.org", npm, in_path=True),
    "API": Shape("d.example", api), "telemetry": Shape("e.example", telemetry),
    "git pack, listed": Shape("git.example", pack, listed=True),
    "layer, listed": Shape("r.example", layer, listed=True),
    "git pack": Shape("git.example", pack), "layer": Shape("r.example", layer),
}  # fmt: skip


class Tally:
    def __init__(self) -> None:
        self.requests = self.refused = self.sent = self.charged = self.found = 0


def one_session(shape: Shape, tally: Tally) -> None:
    def tell(found: CredentialFound) -> None:
        tally.found += found.detector not in ("session-budget", "generic_high_entropy")

    spending, listed = Spending(BUDGET), ("generic_high_entropy",) if shape.listed else ()
    scan = ConnectionScan(PlanScan(GIVEN), shape.host, listed, tell, Room(), (), spending)
    for said in shape.session():
        tally.requests += 1
        tally.sent += len(said)
        try:
            scan.request(b"POST", said if shape.in_path else b"/v1/items", [(b"Accept", b"*/*")])
            if not shape.in_path:
                _send(scan, said)
        except Leak:
            tally.refused += 1
    tally.charged += spending.spent


def _send(scan: ConnectionScan, said: bytes) -> None:
    body, buffer = scan.body(Head((b"POST", b"/"), 1, []), OfLength(len(said)), len(said)), bytearray(said)
    while not body.done:
        body.take(buffer)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.dlp_shapes")
    parser.add_argument("--mib", type=int, default=64, help="how much in all")
    wanted = (parser.parse_args().mib << 20) // len(SHAPES)
    for name, shape in SHAPES.items():
        tally = Tally()
        while tally.sent < wanted:
            one_session(shape, tally)
        share = 100 * tally.charged / tally.sent
        print(
            f"{name:36}{tally.sent / 1e6:8.1f} MB {tally.requests:7} requests {tally.refused:5} refused"
            f"{share:8.2f} % charged {tally.found:4} credentials", flush=True,
        )  # fmt: skip


if __name__ == "__main__":
    main()
