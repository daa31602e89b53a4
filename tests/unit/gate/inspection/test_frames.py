"""Frames of a WebSocket: what is passed on is to another reader what was sent, and what makes no sense is refused."""

from __future__ import annotations

import os
import random
from typing import Any

import pytest
from websockets.exceptions import ProtocolError
from websockets.frames import Close, Frame, Opcode

from pysandbox.gate.inspection.frames import (
    AT_ONCE,
    BINARY,
    CLOSE,
    CONTINUATION,
    PING,
    TEXT,
    Frames,
    close_frame,
    frame,
)
from pysandbox.gate.inspection.heads import BadMessage

SEEDS = range(int(os.environ.get("PSB_FRAMING_SEEDS", "8")))
Message = tuple[int, bytes]


class TooMuch(Exception):
    pass


def frames(*, masked: bool = True, most: int = 1 << 30) -> Frames:
    def hold(size: int) -> None:
        if size > most:
            raise TooMuch(size)

    return Frames(masked=masked, hold=hold, passing=None)


def passed(stream: bytes, *, masked: bool = True, step: int = 1 << 20, **terms: int) -> bytes:
    made, buffer, out = frames(masked=masked, **terms), bytearray(), bytearray()
    for at in range(0, len(stream), step):
        buffer += stream[at : at + step]
        while True:
            out += made.take(buffer)
            if not made.more:
                break
    return bytes(out)


def read_by_another(stream: bytes, *, masked: bool) -> list[Message]:
    """Messages and control frames as websockets reads them; the end of what makes sense is the end."""
    found: list[Message] = []
    at, whole, kind = 0, b"", -1

    def exactly(count: int) -> Any:
        nonlocal at
        if at + count > len(stream):
            raise EOFError
        at += count
        return stream[at - count : at]
        yield

    while True:
        parser = Frame.parse(exactly, mask=masked)
        try:
            next(parser)
        except StopIteration as stopped:
            each = stopped.value
        except (EOFError, ProtocolError):
            return found
        if each.opcode in (Opcode.PING, Opcode.PONG, Opcode.CLOSE):
            found.append((int(each.opcode), bytes(each.data)))
            if each.opcode is Opcode.CLOSE:
                return found
            continue
        if (each.opcode is Opcode.CONT) == (kind < 0):
            return found
        kind, whole = (int(each.opcode), b"") if kind < 0 else (kind, whole)
        whole += bytes(each.data)
        if each.fin:
            found.append((kind, whole))
            kind = -1


@pytest.mark.parametrize("masked", [True, False])
@pytest.mark.parametrize("size", [0, 1, 125, 126, 127, 4096, 65535, 65536, 200_000])
@pytest.mark.parametrize("step", [1, 7, 1 << 20])
def test_a_message_of_any_size_arrives_as_it_was(size: int, masked: bool, step: int) -> None:
    if size > 5000 and step == 1:
        step = 4093
    said = bytes(range(256)) * (size // 256 + 1)
    out = passed(frame(BINARY, said[:size], masked=masked), masked=masked, step=step)
    assert read_by_another(out, masked=masked) == [(BINARY, said[:size])]


def test_a_small_frame_stays_one_and_a_large_one_is_passed_on_as_it_comes() -> None:
    made, buffer = frames(masked=False), bytearray()
    small, large = frame(BINARY, b"x" * 4000, masked=False), frame(BINARY, b"x" * 100_000, masked=False)
    buffer += small[:2000]
    assert made.take(buffer) == b""
    buffer += small[2000:]
    assert made.take(buffer) == small
    buffer += large[:20_000]
    assert len(made.take(buffer)) > 19_000


def test_a_mask_is_of_our_own_making() -> None:
    """A client that chooses it would choose what the wire shows."""
    said = b"GET /admin HTTP/1.1\r\n\r\n"
    chosen = bytes((0x82, 0x80 | len(said), 0, 0, 0, 0)) + said
    assert said in chosen and said not in passed(chosen)


def test_a_ping_passes_in_the_middle_of_a_message() -> None:
    stream = (
        frame(TEXT, b"a", final=False, masked=True) + frame(PING, b"!", masked=True)
        + frame(CONTINUATION, b"b", masked=True)
    )  # fmt: skip
    assert read_by_another(passed(stream), masked=True) == [(PING, b"!"), (TEXT, b"ab")]


def test_nothing_follows_a_close_frame() -> None:
    stream = frame(CLOSE, b"\x03\xe8bye", masked=True) + frame(TEXT, b"more", masked=True)
    assert read_by_another(passed(stream), masked=True) == [(CLOSE, b"\x03\xe8bye")]
    assert passed(stream).count(b"more") == 0


def raw(first: int, second: int, *rest: int, said: bytes = b"") -> bytes:
    return bytes((first, second, *rest)) + said


BAD = {
    "unmasked": frame(TEXT, b"a", masked=False),
    "a reserved bit": raw(0xC1, 0x80, 0, 0, 0, 0),
    "another reserved bit": raw(0x91, 0x80, 0, 0, 0, 0),
    "a reserved opcode": raw(0x83, 0x80, 0, 0, 0, 0),
    "a reserved control opcode": raw(0x8B, 0x80, 0, 0, 0, 0),
    "a long ping": raw(0x89, 0xFE, 0, 126, 0, 0, 0, 0, said=bytes(126)),
    "a ping in pieces": raw(0x09, 0x80, 0, 0, 0, 0),
    "a length of 16 bits that needs 7": raw(0x82, 0xFE, 0, 125, 0, 0, 0, 0, said=bytes(125)),
    "a length of 64 bits that needs 16": raw(0x82, 0xFF, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF, 0, 0, 0, 0),
    "a length with its highest bit": raw(0x82, 0xFF, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0),
    "going on with nothing": frame(CONTINUATION, b"a", masked=True),
    "a message in a message": frame(TEXT, b"a", final=False, masked=True) + frame(TEXT, b"b", masked=True),
    "a text that is none": frame(TEXT, b"\xff", masked=True),
    "a text that ends early": frame(TEXT, "\u00e4".encode()[:1], masked=True),
    "a close of one byte": frame(CLOSE, b"\x03", masked=True),
    "a close with a code that is never sent": frame(CLOSE, b"\x03\xed", masked=True),
    "a close whose reason is no text": frame(CLOSE, b"\x03\xe8\xff", masked=True),
    "a request": b"GET / HTTP/1.1\r\nHost: api.example\r\n\r\n",
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_what_makes_no_sense_is_refused(name: str) -> None:
    with pytest.raises(BadMessage):
        passed(BAD[name])


def test_a_frame_of_a_server_is_never_masked() -> None:
    with pytest.raises(BadMessage, match="masked"):
        passed(frame(TEXT, b"a", masked=True), masked=False)


def test_a_letter_that_is_cut_by_a_frame_is_a_letter() -> None:
    first, second = "\u00e4".encode()[:1], "\u00e4".encode()[1:]
    stream = frame(TEXT, first, final=False, masked=True) + frame(CONTINUATION, second, masked=True)
    assert read_by_another(passed(stream), masked=True) == [(TEXT, "\u00e4".encode())]


def test_a_message_is_held_to_its_size_over_all_its_frames() -> None:
    whole = frame(BINARY, bytes(5), masked=True)
    pieces = frame(BINARY, bytes(3), final=False, masked=True) + frame(CONTINUATION, bytes(2), masked=True)
    huge = raw(0x82, 0xFF, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0)  # 4 GiB, of which not a byte has come
    assert passed(whole, most=5) and passed(pieces, most=5) and passed(whole * 3, most=5)
    for stream in (whole, pieces, huge):
        with pytest.raises(TooMuch):
            passed(stream, most=4)


def test_a_flood_of_small_frames_is_read_in_turns() -> None:
    made, buffer = frames(masked=False), bytearray(frame(PING, b"", masked=False) * (3 * AT_ONCE))
    turns = 0
    while buffer:
        made.take(buffer)
        turns += 1
        assert turns < 10
    assert turns == 3 and not made.more


def test_empty_pieces_are_not_passed_on() -> None:
    stream = frame(BINARY, b"", final=False, masked=True) + frame(CONTINUATION, b"", final=False, masked=True) * 1000
    out = passed(stream + frame(CONTINUATION, b"x", masked=True))
    assert read_by_another(out, masked=True) == [(BINARY, b"x")] and len(out) < 20


def test_the_last_words_fit_a_frame() -> None:
    said = close_frame(1008, "x" * 400)
    assert len(said) == 127
    assert Close.parse(said[2:]).code == 1008


def piece(chance: random.Random) -> bytes:
    if chance.random() < 0.5:
        return frame(chance.choice((BINARY, PING)), b"a" * chance.choice((0, 20, 125)), masked=True)
    opcode = chance.choice((0, 0, 1, 2, 2, 8, 9, 10, 3, 11) if chance.random() < 0.2 else (0, 0, 1, 2, 2, 9, 10))
    size = chance.choice((0, 1, 5, 125, 126, 130, 9000, 66000))
    said = bytes(chance.choice(b"abc \xc3\xa4") for _ in range(min(size, 300))) + b"a" * max(0, size - 300)
    made = bytearray(frame(opcode, said, final=chance.random() < 0.6, masked=chance.random() < 0.95))
    if chance.random() < 0.05:
        made[chance.randrange(2)] ^= 1 << chance.randrange(8)
    return bytes(made)


@pytest.mark.parametrize("seed", SEEDS)
def test_what_is_passed_on_is_what_another_reader_finds(seed: int) -> None:
    chance, messages = random.Random(seed), 0
    for _ in range(60):
        stream = b"".join(piece(chance) for _ in range(chance.randint(1, 6)))
        made, buffer, out, at = frames(), bytearray(), bytearray(), 0
        try:
            while at < len(stream):
                size = chance.choice((1, 17, 5000, 70000))
                buffer += stream[at : at + size]
                at += size
                out += made.take(buffer)
        except BadMessage:
            pass
        sent, read = read_by_another(bytes(out), masked=True), read_by_another(stream, masked=True)
        assert sent == read[: len(sent)]
        messages += len(sent)
    assert messages > 10
