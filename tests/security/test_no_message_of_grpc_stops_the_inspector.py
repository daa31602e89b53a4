"""Claim: what a message of gRPC says is looked at by its size, whatever it is made of, and what many of them say once
they are undone is bounded together: no request of a few hundred bytes stops the inspector of a Runtime, which would be
ended for it, and its hosts closed to all other cages.
"""

from __future__ import annotations

import gzip
import random
import statistics
import time
from collections.abc import Callable, Generator
from pathlib import Path

import pytest

from _support.generators import returned
from _support.scanned import SCAN, another_cage_is_answered_beside, post
from pysandbox.gate.inspection import grpc_messages
from pysandbox.gate.inspection.grpc_messages import GrpcMessages, last_field
from pysandbox.gate.inspection.holding import LEAST
from pysandbox.shapes import replace

MIB = 1 << 20
MOST = 8 * MIB
FIELDS = (b"Content-Type: application/grpc", b"grpc-encoding: gzip")


def message(said: bytes, flag: int = 1) -> bytes:
    return bytes((flag,)) + len(said).to_bytes(4, "big") + said


# ---- the last field -------------------------------------------------------------------------------------------------


def step_by_step(said: bytes) -> bytes:
    """The control: as Python does it."""
    for _ in range(8):
        inner = _last_of(said)
        if not inner:
            break
        said = inner
    return said


def _last_of(said: bytes) -> bytes:
    at = 0
    while at < len(said):
        tag, at = _number(said, at)
        kind, size = tag & 7, 0
        if kind == 2:
            size, at = _number(said, at)
            if at + size == len(said):
                return said[at:]
        elif kind == 0:
            _, at = _number(said, at)
        elif kind in (1, 5):
            size = 8 if kind == 1 else 4
        if kind not in (0, 1, 2, 5) or tag < 8:
            return b""
        at += size
    return b""


def _number(said: bytes, at: int) -> tuple[int, int]:
    number = 0
    for shift in range(0, 64, 7):
        if at >= len(said):
            break
        number |= (said[at] & 0x7F) << shift
        at += 1
        if said[at - 1] < 0x80:
            return number, at
    return 0, len(said) + 1


def some_message(drawn: random.Random, deep: int = 3) -> bytes:
    said = b""
    for _ in range(drawn.randrange(6)):
        tag = drawn.choice((1, 2, 9, 15)) << 3
        inner = some_message(drawn, deep - 1) if deep and drawn.random() < 0.6 else drawn.randbytes(drawn.randrange(9))
        said += drawn.choice((
            bytes((tag, drawn.randrange(128))), bytes((tag | 1,)) + drawn.randbytes(8),
            bytes((tag | 5,)) + drawn.randbytes(4), bytes((tag | 2, min(127, len(inner)))) + inner[:127],
        ))  # fmt: skip
    return said


@pytest.mark.parametrize("seed", range(40))
def test_it_is_the_same_as_step_by_step(seed: int) -> None:
    drawn = random.Random(seed)
    for _ in range(100):
        said = some_message(drawn)
        for each in (said, said[: len(said) // 2], drawn.randbytes(20), bytes(said) + b"\x0a"):
            assert last_field(each) == step_by_step(each), each


def took(work: Callable[[bytes], object], said: bytes) -> float:
    began = time.thread_time()
    work(said)
    return time.thread_time() - began


@pytest.mark.parametrize("made_of", [b"\x08\x01", b"\x0a\x00", b"\x0d1234"], ids=["varints", "empty", "fixed"])
def test_a_message_of_nothing_but_fields_takes_a_fraction_of_what_it_took(made_of: bytes) -> None:
    whole = made_of * (MOST // len(made_of))
    part = whole[: len(whole) // 16]
    both = [(took(last_field, whole), took(step_by_step, part)) for _ in range(3)]
    assert statistics.median(new / control for new, control in both) < 1  # 16 times as much, and faster all the same


# ---- what is undone at once -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_open", [False, True], ids=["each may go", "each may go on in the next"])
def test_what_is_undone_in_one_turn_is_bounded(is_open: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    undone: list[int] = []
    plain = grpc_messages.plain

    def counted(said: bytes, codings: list[bytes], most: int) -> Generator[int, None, bytes | bytearray]:
        undone.append(most)  # in vain, too
        made = yield from plain(said, codings, most)
        undone[-1] = len(made)
        return made

    monkeypatch.setattr(grpc_messages, "plain", counted)
    content = bytearray(message(gzip.compress(b"\x08\x01" * (LEAST // 4))) * 255)
    assert len(content) < LEAST < 100 * LEAST < 255 * LEAST // 2  # the control: it would be that much
    holding = GrpcMessages(lambda *_: is_open, LEAST, [b"gzip"])
    went = 0
    while went < len(content):
        part = returned(holding.deciding(content, went, went, done=True))
        assert part is not None and sum(undone) <= 3 * LEAST and len(part.said) <= 2 * LEAST
        if part.why:
            assert is_open
            return
        assert part.goes > went
        went = part.goes
        undone.clear()
    assert not is_open


def test_what_waits_is_not_undone_again(monkeypatch: pytest.MonkeyPatch) -> None:
    undone: list[int] = []
    plain = grpc_messages.plain
    monkeypatch.setattr(grpc_messages, "plain", lambda *given: undone.append(1) or plain(*given))
    holding, content = GrpcMessages(lambda *_: True, LEAST, [b"gzip"]), bytearray()
    for count in range(1, 100):
        content += message(gzip.compress(b"hello"))
        assert returned(holding.deciding(content, 0, 0, done=False)) is None
        assert len(undone) == count


def test_encodings_inside_each_other_are_undone_for_nobody() -> None:
    said = gzip.compress(gzip.compress(bytes(LEAST)))
    assert len(said) < 200
    holding = GrpcMessages(lambda *_: False, LEAST, [b"gzip", b"gzip"])
    part = returned(holding.deciding(bytearray(message(said)), 0, 0, done=True))
    assert part is not None and "in no way that may be undone" in part.why


# ---- another cage meanwhile -----------------------------------------------------------------------------------------

ATTACKS = {
    "varints": [message(b"\x08\x01" * (3 * MIB), 0)],
    "varints, compressed": [message(gzip.compress(b"\x08\x01" * (MOST // 2 - 1000)))] * 3,
    "twice compressed": [message(gzip.compress(gzip.compress(b"\x08\x01" * (MOST // 2 - 1000))))] * 255,
    "many that say nothing": [message(gzip.compress(b""))] * 255,
}


@pytest.mark.parametrize("attack", ATTACKS)
def test_another_cage_is_answered_by_the_same_inspector(attack: str, tmp_path: Path) -> None:
    fields = FIELDS if "twice" not in attack else (FIELDS[0], b"grpc-encoding: gzip, gzip")
    message = post(b"".join(ATTACKS[attack]), *fields)
    another_cage_is_answered_beside(tmp_path, replace(SCAN, whole=MOST), message)
