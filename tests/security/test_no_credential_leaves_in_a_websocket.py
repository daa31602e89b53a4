"""Claim: where what is sent is scanned, no credential leaves in a message of a WebSocket: in no kind of message, in no
encoding, however it is cut into frames, also in what a ping says. The connection ends with a close frame that says why,
and the server is told of no whole message that has one.
"""

from __future__ import annotations

import base64
import gzip
import json
import random
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from _support.inspected import NAME, Asking, Server, inspector_process, tls_server
from _support.scanned import SCAN, TOKEN
from pysandbox.compile.plan import Contract, ScanPlan
from pysandbox.dlp.canary import new_values
from pysandbox.events import Event
from pysandbox.gate.inspection.frames import BINARY, CLOSE, CONTINUATION, PING, PONG, TEXT, frame, frame_head
from pysandbox.gate.inspection.scanned_messages import PART
from pysandbox.gate.inspectors import ScanningInspector

from .test_a_websocket_is_one_or_nothing_passes import ASKED, SWITCHED, read

OPEN = Contract(websocket=True)
POLICY_VIOLATION = b"\x03\xf0"  # 1008
HALF = len(TOKEN) // 2


@dataclass
class Reading(Server):
    """Agrees to a WebSocket; keeps the frames that come, and answers each PING."""

    frames: list[tuple[int, bool, bytes]] = field(default_factory=list)

    @property
    def content(self) -> bytes:
        return b"".join(said for opcode, _, said in self.frames if opcode != CLOSE)

    def _serve(self, far) -> None:  # type: ignore[no-untyped-def]
        buffer, is_open = bytearray(), False
        with suppress(OSError), self.context.wrap_socket(far, server_side=True) as tls:
            while said := tls.recv(65536):
                buffer += said
                if not is_open and (at := buffer.find(b"\r\n\r\n")) >= 0:
                    del buffer[: at + 4]
                    is_open = True
                    tls.sendall(SWITCHED)
                while is_open and (taken := _frame(buffer)) is not None:
                    self.frames.append(taken)
                    if taken[0] == PING:
                        tls.sendall(frame(PONG, taken[2], masked=False))


def _frame(buffer: bytearray) -> tuple[int, bool, bytes] | None:
    head = frame_head(buffer, masked=True)
    if head is None or len(buffer) < head.size + head.length:
        return None
    said = bytes(each ^ head.mask[at % 4] for at, each in enumerate(buffer[head.size : head.size + head.length]))
    del buffer[: head.size + head.length]
    return head.opcode, head.final, said


@dataclass
class Talk:
    at: Asking
    server: Reading

    def say(self, *frames: bytes) -> bytes:
        """What the client sees of frames that are sent on one connection, up to the answer to a last ping."""
        self.server.frames.clear()
        with self.at.client(self.server) as tls:
            tls.sendall(ASKED + b"\r\n")
            assert read(tls, lambda said: said.endswith(b"\r\n\r\n")).startswith(b"HTTP/1.1 101 ")
            for each in (*frames, frame(PING, b"the end", masked=True)):
                with suppress(OSError):
                    tls.sendall(each)
            return read(tls, lambda said: said.endswith(b"the end"))

    def found(self) -> list[dict[str, object]]:
        self.at.inspector.wait_booked()
        return [dict(each.data) for each in self.at.events if each.type == "gatekeeper.credential_found"]


@pytest.fixture(scope="module")
def inspector(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ScanningInspector]:
    events: list[Event] = []
    with inspector_process(events, kind=ScanningInspector) as made:
        assert isinstance(made, ScanningInspector)
        talk(made, tmp_path_factory.mktemp("first"))  # it is started when it is first asked
        yield made
    assert events == []


def talk(
    inspector: ScanningInspector, directory: Path, scan: ScanPlan | None = SCAN, contract: Contract = OPEN
) -> Talk:
    server = tls_server(directory, Reading)
    return Talk(Asking(inspector, contract, str(directory / f"{NAME}.pem"), scan=scan), server)


def message(said: bytes, opcode: int = TEXT, size: int = 0) -> bytes:
    """In frames of so many bytes."""
    pieces = [said[at : at + size] for at in range(0, len(said), size)] if size else [said]
    return b"".join(
        frame(CONTINUATION if at else opcode, each, final=at == len(pieces) - 1, masked=True)
        for at, each in enumerate(pieces)
    )


def is_refused(with_it: Talk, *frames: bytes) -> None:
    with_it.at.events.clear()
    seen = with_it.say(*frames)
    assert POLICY_VIOLATION in seen and b"pysandbox: dlp-blocked" in seen, seen
    assert TOKEN not in seen and TOKEN not in with_it.server.content and b"the end" not in with_it.server.content
    assert with_it.at.refused()[-1] == ("dlp", "dlp.github_pat")
    told = with_it.found()
    assert TOKEN.decode() not in str(told)
    assert not told or told[-1]["verdict"] == "blocked"


ATTACKS: dict[str, Sequence[bytes]] = {
    "text": [message(b"a " + TOKEN + b" b")],
    "binary": [message(b"\xff\x00" + TOKEN + b"\xfe", BINARY)],
    "JSON": [message(json.dumps({"a": [{"b": "c " + TOKEN.decode()}]}).encode())],
    "base64": [message(base64.b64encode(b"x" + TOKEN))],
    "base64, twice, binary": [message(base64.b64encode(base64.b64encode(TOKEN)), BINARY)],
    "gzip": [message(gzip.compress(TOKEN), BINARY)],
    "hex": [message(TOKEN.hex().encode())],
    "UTF-16": [message(TOKEN.decode().encode("utf-16"), BINARY)],
    "frames of one byte": [message(b"a " + TOKEN + b" b", size=1)],
    "frames with pings between": [
        b"".join((frame(TEXT, TOKEN[:HALF], final=False, masked=True), frame(PING, b"x", masked=True),
                  frame(CONTINUATION, TOKEN[HALF:], masked=True)))
    ],
    "two messages": [message(TOKEN[:HALF]), message(TOKEN[HALF:])],
    "a message of single letters each": [message(bytes((each,))) for each in TOKEN],
    "a ping": [frame(PING, TOKEN, masked=True)],
    "pings": [frame(PING, TOKEN[:HALF], masked=True), frame(PING, TOKEN[HALF:], masked=True)],
    "a pong": [frame(PONG, TOKEN, masked=True)],
    "the reason of a close": [frame(CLOSE, b"\x03\xe8" + TOKEN, masked=True)],
    "after what is clean": [message(b"hello"), message(random.Random(1).randbytes(9000), BINARY), message(TOKEN)],
}  # fmt: skip


def test_what_has_none_in_it_arrives_as_it_was_said(inspector: ScanningInspector, tmp_path: Path) -> None:
    """The control; and without the scan the same token arrives."""
    calm = talk(inspector, tmp_path)
    large = random.Random(2).randbytes(3 * PART + 12345)
    seen = calm.say(message(b"hello"), message(b"w\xc3\xb6rld", size=2), message(large, BINARY, 50_000))
    assert b"the end" in seen and calm.found() == []
    assert calm.server.content == b"hello" + "wörld".encode() + large + b"the end"
    assert next(each for each in calm.server.frames if each[1]) == (TEXT, True, b"hello")
    assert b"the end" in calm.say(b"".join(message(b"%d," % each) for each in range(500)))
    assert calm.server.content == b"".join(b"%d," % each for each in range(500)) + b"the end", "in several turns"
    without = talk(inspector, tmp_path, scan=None)
    assert b"the end" in without.say(message(TOKEN)) and TOKEN in without.server.content


def test_in_no_message_does_it_leave(inspector: ScanningInspector, tmp_path: Path) -> None:
    with_it = talk(inspector, tmp_path)
    for attack, frames in ATTACKS.items():
        print(attack)
        is_refused(with_it, *frames)


@pytest.mark.parametrize("at", [PART - HALF, PART - 1, PART + SCAN.depth, PART + (1 << 16) - HALF, 2 * PART, 3 * PART])
def test_wherever_it_stands_in_a_long_one(inspector: ScanningInspector, tmp_path: Path, at: int) -> None:
    """What came before may have left; of the credential, no byte."""
    with_it = talk(inspector, tmp_path)
    for size in (4096, 65536):
        is_refused(with_it, message(b"." * at + TOKEN + b"." * PART, BINARY, size))
        assert with_it.server.content == b"." * len(with_it.server.content)
        assert not any(final for opcode, final, _ in with_it.server.frames if opcode in (BINARY, CONTINUATION))


def test_what_may_go_there_goes_and_is_told_with_its_place(inspector: ScanningInspector, tmp_path: Path) -> None:
    listed = talk(inspector, tmp_path, contract=Contract(websocket=True, credentials=("github_pat",)))
    said = json.dumps({"a": ["b", TOKEN.decode()]}).encode()
    assert b"the end" in listed.say(message(said), message(said)) and TOKEN in listed.server.content
    assert [(each["place"], each["verdict"]) for each in listed.found()] == [("message json $.a[1]", "listed")]
    warned = talk(inspector, tmp_path, replace(SCAN, warns=True))
    assert b"the end" in warned.say(message(TOKEN)) and [each["verdict"] for each in warned.found()] == ["warned"]


def test_false_credentials_and_opaque_bytes_count_there_too(inspector: ScanningInspector, tmp_path: Path) -> None:
    name = "AWS_SECRET_ACCESS_KEY"
    with_it = talk(inspector, tmp_path, replace(SCAN, canaries=(name,), budget=4096))
    with_it.at.session.number = 1  # another cage, with a budget of its own
    with_it.at.session.canaries = new_values([name])
    assert b"dlp-blocked" in with_it.say(message(with_it.at.session.canaries[name].encode()))
    assert with_it.at.refused()[-1] == ("dlp", "dlp.canary_aws_secret_access_key")
    seen = with_it.say(*(message(random.Random(each).randbytes(600), BINARY) for each in range(12)))
    assert b"dlp-blocked" in seen and with_it.at.refused()[-1] == ("dlp", "dlp.session-budget")
    assert len(with_it.server.content) <= 4096
