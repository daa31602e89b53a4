"""Bodies without a known end that are scanned, without a process: what leaves of them, and when."""

from __future__ import annotations

import base64
import gzip
import random
import zlib
from collections.abc import Callable, Iterator

import pytest
from backports import zstd
from h2.events import DataReceived, Event, RequestReceived, StreamEnded

from _support.http2 import Trial, fields
from pysandbox.dlp import registry
from pysandbox.dlp.engine import OVERLAP, scan
from pysandbox.gate.inspection.grpc_messages import last_field
from pysandbox.gate.inspection.holding import LEAST
from pysandbox.gate.inspection.room import FREE, Room
from pysandbox.gate.inspection.scanning import ConnectionScan, CredentialFound, PlanScan

from .test_scanning import ENCODINGS, GIVEN, HOST, OK, TOKEN, Conversation

HEAD = b"POST / HTTP/1.1\r\nHost: api.example\r\nTransfer-Encoding: chunked\r\n"
GRPC = b"Content-Type: application/grpc\r\n"
BEFORE, AFTER = b'data: {"a": "hello"}\n\n', b'\ndata: {"a": "bye"}\n\n'
WRAPPED: dict[str, Callable[[bytes], bytes]] = {
    "base64 in lines of 20": lambda said: _lines(base64.b64encode(said), 20),
    "hex in lines of 32": lambda said: _lines(said.hex().encode(), 32),
    "base32 in lines of 24": lambda said: _lines(base64.b32encode(said), 24),
    "soft breaks": lambda said: b"=\n".join(said[at : at + 9] for at in range(0, len(said), 9)),
    "UTF-16": lambda said: said.decode().encode("utf-16-le"),
    "gzip in lines": lambda said: _lines(base64.b64encode(gzip.compress(said)), 76),
    "twice": lambda said: _lines(base64.b64encode(base64.b64encode(said)), 60),
    "later in base64": lambda said: base64.b64encode(b"x" * 31 + said),
    "one further": lambda said: base64.b64encode(b"x" * 32 + said),
    "two further": lambda said: base64.b64encode(b"x" * 33 + said),
}  # fmt: skip
ALL_WAYS = {**ENCODINGS, **WRAPPED}


def _lines(said: bytes, size: int) -> bytes:
    return b"".join(said[at : at + size] + b"\r\n" for at in range(0, len(said), size))


def chunk(said: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(said), said)


def pieces(said: bytes, size: int, first: int = 0) -> Iterator[bytes]:
    """So many bytes each, after a first piece of another size."""
    if first:
        yield said[:first]
    for at in range(first, len(said), size):
        yield said[at : at + size]


class Stream(Conversation):
    """A request in chunks, as it goes on."""

    def __init__(self, *fields: bytes, **given: object) -> None:
        super().__init__(**given)  # type: ignore[arg-type]
        self.exchange.client_said(HEAD + b"".join(fields) + b"\r\n")

    def go(self, said: bytes) -> bytes:
        """What has left by then of the content."""
        self.say(chunk(said) if said else b"0\r\n\r\n")
        return self.content

    @property
    def content(self) -> bytes:
        said, content = self.sent.partition(b"\r\n\r\n")[2], b""
        while said:
            size, _, said = said.partition(b"\r\n")
            content, said = content + said[: int(size, 16)], said[int(size, 16) + 2 :]
        return content


def leaves_of(body: bytes, cut: Iterator[bytes]) -> tuple[bytes, int, Stream]:
    stream = Stream()
    for piece in cut:
        stream.go(piece)
        if stream.status:
            break
    else:
        stream.go(b"")
    return stream.content, stream.status, stream


@pytest.mark.parametrize("way", ALL_WAYS)
@pytest.mark.parametrize("seed", range(3))
def test_no_byte_of_a_credential_leaves_however_it_is_cut(way: str, seed: int) -> None:
    drawn = random.Random(f"{way} {seed}")
    for detector in drawn.sample(registry.ALL, 6):
        said = ALL_WAYS[way](drawn.choice(detector.hits))
        body = BEFORE + said + AFTER
        if not scan(body, bytes(16)):
            continue  # quoted-printable reads =A1 as a byte
        for size, first in ((1, 0), (7, drawn.randrange(7)), (len(body), drawn.randrange(1, len(body)))):
            left, status, stream = leaves_of(body, pieces(body, size, first))
            assert status == 451, (detector.name, size, first)
            assert BEFORE.startswith(left.rstrip(b'"\0\n')), (detector.name, size, first, left)
            assert [each.detector for each in stream.found]


def test_at_each_cut_nothing_of_it_leaves_and_what_stands_before_does() -> None:
    body = BEFORE + TOKEN + AFTER
    for at in range(1, len(body)):
        left, status, stream = leaves_of(body, pieces(body, len(body), at))
        is_before = len(BEFORE) <= at <= len(BEFORE + TOKEN)
        assert (left, status) == (BEFORE if is_before else left, 451) and BEFORE.startswith(left), at
        (told,) = stream.found
        assert told.place == ("the body, whose beginning was sent" if left else "the body")
        assert TOKEN.decode() not in repr(stream.found)


TALK = (
    b'{"say": "hello world"}\n', b"data: hello, how are you today?\n\n", "data: 你好\n\n".encode(), b"words\n",
    b"<p>text</p>\n", b'{"n": 12.5, "t": "2026-11-24T09:15:00Z", "ip": "10.0.0.5"}\n',
    b"10:15:00.123 GET 10.0.0.5 200\n", b'{"a": [1, 2], "path": "C:\\\\tmp"}', b"x=1&y=%20z\n", b"deadbeef cafe babe\n",
    b"ghp_ and Bearer are how they begin.\n",
)  # fmt: skip


@pytest.mark.parametrize("said", TALK)
def test_each_line_leaves_when_it_has_come(said: bytes) -> None:
    stream = Stream()
    for count in range(1, 30):
        assert stream.go(said) == said * count, count
    stream.exchange.server_said(OK)
    assert stream.status == 200 and stream.found == []


@pytest.mark.parametrize("size", [1, 7, 1000, 70000])
@pytest.mark.parametrize("kind", ["text", "bytes", "base64", "gzip", "zeros"])
def test_what_passes_is_what_was_said(kind: str, size: int) -> None:
    drawn = random.Random(size)
    count = min(2000 * size, 10_000 + 40 * size, 700_000)
    body = {
        "text": b'{"say": "hello"}\nand more words of it, '* (count // 30), "bytes": drawn.randbytes(count),
        "base64": base64.encodebytes(drawn.randbytes(count)), "gzip": gzip.compress(drawn.randbytes(count)),
        "zeros": bytes(count),
    }[kind]  # fmt: skip
    left, status, stream = leaves_of(body, pieces(body, size))
    assert (left == body, status, stream.found) == (True, 0, [])


def message(said: bytes, flag: int = 0) -> bytes:
    return bytes((flag,)) + len(said).to_bytes(4, "big") + said


def field(said: bytes, number: int = 1) -> bytes:
    assert len(said) < 128
    return bytes((number << 3 | 2, len(said))) + said


def test_each_message_of_grpc_leaves_when_it_is_whole() -> None:
    stream = Stream(GRPC)
    stream.drain()
    assert stream.sent.endswith(b"\r\n\r\n")  # its head is there before the first of them
    whole = b""
    for said in (b"", b"hello", field(b"user") + field(b"word", 2), bytes(range(256)) * 300, b"Bearer of news"):
        said = message(said)
        assert stream.go(said[:7]) == (whole + said if len(said) < 7 else whole)
        whole += said
        assert (stream.go(said[7:]) if len(said) > 7 else stream.content) == whole
    assert stream.go(message(gzip.compress(b"hello"), 1)) != whole or stream.status == 451


COMPRESSED = {b"gzip": gzip.compress, b"deflate": zlib.compress, b"zstd": zstd.compress, b"identity": bytes}


@pytest.mark.parametrize("coding", COMPRESSED)
def test_a_compressed_message_is_looked_into(coding: bytes) -> None:
    for said, status in ((b"hello", 0), (field(b"key " + TOKEN), 451)):
        stream = Stream(GRPC, b"grpc-encoding: " + coding + b"\r\n")
        sent = message(COMPRESSED[coding](said), int(coding != b"identity"))
        assert (stream.go(sent), stream.status) == (b"" if status else sent, status)


@pytest.mark.parametrize("coding", [b"", b"snappy", b"identity"])
def test_a_message_that_nothing_undoes_is_refused(coding: bytes) -> None:
    stream = Stream(GRPC, b"grpc-encoding: " + coding + b"\r\n")
    assert (stream.go(message(b"hello, world", 1)), stream.status) == (b"", 451)
    assert [each.detector for each in stream.found] == ["undecodable-body"]


@pytest.mark.parametrize("wrap", [bytes, field, lambda said: b"\x08\x07" + field(field(said), 10)])
@pytest.mark.parametrize("way", ["plain", "base64", "hex", "twice"])
@pytest.mark.parametrize("size", [1, 2, 3, 7, 20])
def test_a_credential_cut_in_messages_is_found_where_they_meet(
    wrap: Callable[[bytes], bytes], way: str, size: int
) -> None:
    said = base64.b64encode(base64.b64encode(TOKEN)) if way == "twice" else ENCODINGS[way](TOKEN)
    stream = Stream(GRPC)
    stream.go(message(wrap(b"hello")))
    for piece in pieces(said, size):
        stream.go(message(wrap(piece)))
        if stream.status:
            break
    else:
        stream.go(message(wrap(b" and so on")))
    assert stream.status == 451
    least = {"plain": 3, "base64": 5, "hex": 6, "twice": 8}[way]  # letters of three bytes
    left = stream.content.removeprefix(message(wrap(b"hello")))
    assert len(left) < len(message(wrap(said[:size]))) * (least // size + 1), left


def test_the_last_field_of_a_message() -> None:
    assert last_field(b"") == b"" and last_field(b"hello") == b"hello"
    assert last_field(b"\x08\x96\x01" + field(b"a") + field(field(b"inner"), 9)) == b"inner"
    for said in (b"\xff" * 30, b"\n\x85\xff\xff\xff\xff\xff\xff\xff\xff\x7f", b"\x08", b"\n", field(b"x")[:-1]):
        assert last_field(said) == said


def test_what_is_not_framed_as_grpc_is_held_to_its_end() -> None:
    stream = Stream(GRPC)
    assert stream.go(b"hello\n") == b"" and stream.go(b"") == b"hello\n"
    stream = Stream(GRPC)
    assert stream.go(b"hello " + TOKEN) == b"" and stream.go(b"") == b"" and stream.status == 451


def test_a_message_that_is_longer_than_is_looked_at_together_passes_in_parts() -> None:
    said = message(random.Random(1).randbytes(3 * LEAST))
    left = Stream(GRPC, whole=LEAST)
    for piece in pieces(said, 60000):
        left.go(piece)
    assert said.startswith(left.content) and len(said) - len(left.content) < LEAST
    assert left.go(b"") == said


def test_what_never_ends_keeps_no_more_than_its_part_and_goes_on() -> None:
    """One run of letters: the last of it is always here."""
    stream, sent = Stream(whole=LEAST), 0
    for _ in range(40):
        sent += 20000
        left = stream.go(b"aZ09" * 5000)
        assert sent - len(left) < LEAST + FREE
    assert sent - len(left) >= OVERLAP
    stream.go(base64.b64encode(TOKEN)[:20])
    before = stream.content
    stream.go(base64.b64encode(b"x" + TOKEN)[20:] + base64.b64encode(b"\n" + TOKEN))
    stream.go(b"\n}")
    assert stream.status == 451 and stream.content == before


def test_room_is_given_back_when_what_waited_has_left() -> None:
    room = Room(LEAST + OVERLAP)
    one, other = Stream(whole=LEAST, room=room), Stream(whole=LEAST, room=room)
    for stream in (one, other):
        for _ in range(3):
            stream.go(b"a" * 50000)  # an open run
    assert room.has(next(iter(room._taken)))
    assert one.go(b"\n}\n") == b"a" * 150_000 + b"\n}\n"
    other.drain()
    assert other.go(b"\n}\n") == b"a" * 150_000 + b"\n}\n"


def test_room_for_messages_is_room_for_all_that_may_wait_together() -> None:
    """A short one, at whose end something may have begun, keeps the long one behind it."""
    room = Room()
    stream = Stream(GRPC, whole=LEAST, room=room)
    stream.drain()
    assert stream.go(message(field(TOKEN[:20]))) == b"", "the control: it waits"
    stream.go(message(b"b" * (LEAST // 2))[: FREE + 100])
    assert sum(room._taken.values()) == LEAST + OVERLAP


def test_opaque_bytes_in_small_pieces_are_counted_together() -> None:
    body = random.Random(1).randbytes(400).hex().encode()
    stream = Stream(budget=100)
    for piece in pieces(body, 7):
        stream.go(piece)
    stream.go(b"\n")
    assert stream.status == 451 and stream.content == b""
    binary = bytes(each | 0x80 for each in random.Random(2).randbytes(400))
    stream = Stream(budget=100)
    for piece in pieces(binary.replace(b"\xc2", b"\xff"), 5):
        stream.go(b"\x02" + piece)
    assert stream.status == 451 and len(stream.content) < 200


def test_with_monitor_it_passes_and_is_told() -> None:
    for kind, said in (((), BEFORE + TOKEN + AFTER), ((GRPC,), message(TOKEN)), ((GRPC,), message(b"x" * 30, 1))):
        stream = Stream(*kind, warns=True)
        assert stream.go(said) == said and stream.go(b"") == said
        assert {each.verdict for each in stream.found} == {"warned"}


def test_compressed_as_a_whole_is_held_as_a_whole() -> None:
    stream = Stream(b"Content-Encoding: gzip\r\n")
    body = gzip.compress(b"hello\n")
    assert stream.go(body) == b"" and stream.go(b"") == body


def test_a_refusal_after_the_answer_has_begun_is_a_reset() -> None:
    stream = Stream(GRPC)
    stream.go(message(b"hello"))
    stream.exchange.server_said(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
    stream.go(message(b"key " + TOKEN))
    assert stream.exchange.broken and not stream.exchange.to_server
    assert HOST == "api.example" and stream.content == message(b"hello")


class Streams(Trial):
    """HTTP/2, with a server that answers as soon as it is asked and echoes what comes."""

    def __init__(self) -> None:
        scan = ConnectionScan(PlanScan(GIVEN), HOST, (), (found := []).append, Room())
        super().__init__(scan=scan, answer=Streams.echo)
        self.found: list[CredentialFound] = found

    def echo(self, event: Event) -> None:
        number = getattr(event, "stream_id", 0)
        if isinstance(event, RequestReceived):
            self.server.send_headers(number, [(":status", "200"), ("content-type", "application/grpc")])
        if isinstance(event, DataReceived):
            self.server.send_data(number, event.data or b"")
        if isinstance(event, StreamEnded):
            self.server.send_headers(number, [("grpc-status", "0")], end_stream=True)

    def open(self, number: int, kind: str) -> None:
        self.client.send_headers(number, fields("POST", "/", ("content-type", kind), ("te", "trailers")))
        self.turn()

    def say(self, number: int, said: bytes, *, ends: bool = False) -> bytes:
        """What was echoed by then."""
        self.client.send_data(number, said, end_stream=ends)
        return self.turn().content(number)


def test_a_call_goes_on_in_both_directions_and_a_refusal_ends_it_alone() -> None:
    trial = Streams()
    for number in (1, 3):
        trial.open(number, "application/grpc+proto")
        assert trial.fields_heard(number)[":status"] == "200"  # before a message was sent
    for count in range(1, 6):
        assert trial.say(1, message(field(b"ping"))) == message(field(b"ping")) * count, count
        assert trial.say(3, message(field(b"pong"))) == message(field(b"pong")) * count
    before = trial.content(1)
    assert trial.say(1, message(field(b"key " + TOKEN))) == before
    assert trial.resets() == [(1, 2)] and trial.resets(trial.arrived) == [(1, 8)]
    assert TOKEN[:4] not in trial.content(1, trial.arrived)
    assert trial.say(3, message(b"still here"), ends=True).endswith(message(b"still here"))
    assert trial.fields_heard(3)["grpc-status"] == "0"
    assert [(each.detector, each.place) for each in trial.found] == [
        ("github_pat", "the body, whose beginning was sent")
    ]


def test_frames_cut_a_message_or_a_line_anywhere() -> None:
    for kind, body in (("application/grpc", message(b"a b c " + TOKEN)), ("text/plain", BEFORE + TOKEN + AFTER)):
        for at in range(1, len(body)):
            trial = Streams()
            trial.open(1, kind)
            trial.say(1, body[:at])
            if not trial.found:
                trial.say(1, body[at:], ends=True)
            left = trial.content(1, trial.arrived)
            assert BEFORE.startswith(left) and [each.verdict for each in trial.found] == ["blocked"], (kind, at)


def test_what_has_a_known_end_is_held_to_it() -> None:
    trial = Streams()
    more = (("content-type", "application/json"), ("content-length", str(len(BEFORE))))
    trial.client.send_headers(1, fields("POST", "/", *more))
    assert trial.say(1, BEFORE[:-1]) == b"" and trial.content(1, trial.arrived) == b""
    assert trial.say(1, BEFORE[-1:], ends=True) == BEFORE


def test_a_trailer_is_looked_at_before_the_end_of_what_it_follows() -> None:
    trial = Streams()
    trial.open(1, "text/plain")
    trial.say(1, BEFORE + b"held")
    trial.client.send_headers(1, [("x-key", TOKEN.decode())], end_stream=True)
    assert trial.turn().content(1, trial.arrived) == BEFORE and trial.resets(trial.arrived) == [(1, 8)]
    assert [each.place for each in trial.found] == ["the trailer"]


def test_what_came_in_one_piece_leaves_without_more() -> None:
    """Nothing is left behind for a turn that nobody takes."""
    body = random.Random(2).randbytes(300_000)
    stream = Stream()
    said = b"".join(map(chunk, pieces(body, 30_000))) + b"0\r\n\r\n"
    stream.exchange.client_said(said)
    stream.drain()
    assert stream.content == body and stream.sent.endswith(b"0\r\n\r\n")
    trial = Streams()
    trial.open(1, "text/plain")
    trial.client.send_data(1, b"a\n" * 8000)
    trial.client.send_data(1, b"b\n" * 8000)
    assert trial.turn().content(1) == b"a\n" * 8000 + b"b\n" * 8000


def test_a_body_of_nothing_is_at_its_end() -> None:
    conversation = Conversation()
    head = HEAD.replace(b"Transfer-Encoding: chunked", b"Content-Length: 0")
    assert conversation.say(head + b"\r\n").endswith(b"\r\n\r\n")
    assert Stream().go(b"") == b"" and Stream(GRPC).go(b"") == b""
