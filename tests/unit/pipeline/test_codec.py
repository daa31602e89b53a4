"""The codec: a value comes back as it was, and whatever else arrives is BadAnswer, soon and in little memory."""

from __future__ import annotations

import datetime as dates
import decimal
import enum
import math
import struct
import time
import tracemalloc
import uuid
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from _support.numbers import imported
from pysandbox.pipeline import decoder
from pysandbox.pipeline.codec import BESIDE, DEEPEST, CannotReturn, encode, name_of
from pysandbox.pipeline.decoder import BadAnswer, Shapes, decode

imported("numpy")


class Colour(enum.Enum):
    RED = 1


class Rude(enum.IntEnum):
    ONE = 1


class Way(enum.Flag):
    NORTH = 1
    WEST = 2


class Row(NamedTuple):
    number: int
    way: Way = Way.NORTH


@dataclass
class Point:
    x: int
    y: float = 0.0
    length: float = field(init=False, default=1.0)


SHAPES = Shapes({name_of(each): each for each in (Colour, Rude, Way)}, {name_of(each): each for each in (Point, Row)})
zones = st.none() | st.integers(-1439, 1439).map(lambda each: dates.timezone(dates.timedelta(minutes=each)))
plain = (
    st.none() | st.booleans() | st.integers(-(2**200), 2**200) | st.floats(allow_nan=False) | st.text(max_size=20)
    | st.binary(max_size=20) | st.complex_numbers(allow_nan=False) | st.dates() | st.times(timezones=zones)
    | st.datetimes(timezones=zones) | st.timedeltas() | st.uuids() | st.decimals(allow_nan=False)
    | st.sampled_from([Colour.RED, Rude.ONE, Path("/a/b"), Path("."), Point(1, 2.0), Row(1), Row(2, Way.WEST)])
    | st.sampled_from([Way.WEST, Way.NORTH | Way.WEST, Way(0)])
)  # fmt: skip
keys = (
    st.none() | st.booleans() | st.integers() | st.text(max_size=5) | st.binary(max_size=5) | st.tuples(st.integers())
)
values = st.recursive(
    plain | st.binary(max_size=20).map(bytearray),
    lambda each: st.lists(each, max_size=5) | st.lists(each, max_size=3).map(tuple)
    | st.dictionaries(keys, each, max_size=5) | st.sets(keys, max_size=5) | st.frozensets(keys, max_size=5),
    max_leaves=30,
)  # fmt: skip


def same(one: object, other: object) -> bool:
    return type(one) is type(other) and one == other


@given(values)
def test_a_value_comes_back_as_it_was(value: object) -> None:
    assert same(decode(encode(value), SHAPES), value)


@given(values, st.data())
def test_one_changed_byte_is_a_value_or_a_bad_answer(value: object, data: st.DataObject) -> None:
    message = bytearray(encode(value)[0])
    message[data.draw(st.integers(0, len(message) - 1))] = data.draw(st.integers(0, 255))
    refused_or_read(bytes(message[: data.draw(st.integers(0, len(message)))]))
    refused_or_read(bytes(message))


@given(st.binary(max_size=300))
@settings(max_examples=300)
def test_whatever_arrives_is_a_value_or_a_bad_answer(data: bytes) -> None:
    refused_or_read(data)


def refused_or_read(data: bytes) -> None:
    try:
        decode([data], SHAPES)
    except BadAnswer:
        pass


def test_numbers_that_equal_nothing() -> None:
    assert math.isnan(decode(encode(float("nan")), SHAPES)) and decode(encode(-math.inf), SHAPES) == -math.inf
    assert decode(encode(decimal.Decimal("sNaN")), SHAPES).is_snan()


class Text(str):
    __slots__ = ()


class Bomb:
    def __reduce__(self) -> tuple[object, tuple[str]]:
        return print, ("never",)


def nested(depth: int) -> list[object]:
    value: list[object] = []
    for _ in range(depth):
        value = [value]
    return value


def holds_itself() -> list[object]:
    value: list[object] = []
    value.append(value)
    return value


@pytest.mark.parametrize(
    "value",
    [
        Bomb(),
        Text("a"),
        object(),
        len,
        Bomb,
        holds_itself(),
        nested(DEEPEST + 1),
        1 << (1 << 21),
        iter([]),
        range(3),
    ],
    ids=lambda each: type(each).__name__,
)
def test_what_no_answer_holds_is_refused_where_it_is_made(value: object) -> None:
    with pytest.raises(CannotReturn, match="cannot return"):
        encode(value)
    with pytest.raises(CannotReturn):
        encode({"a": [value]})


def test_only_what_the_annotation_declares_is_made() -> None:
    for value in (Colour.RED, Point(1), Row(1)):
        with pytest.raises(BadAnswer, match="does not declare"):
            decode(encode(value), Shapes())
    for value, part, other in ((Point(1), b"y", b"z"), (Row(1), b"number", b"nombre"), (Way(3), b"WEST", b"EAST")):
        with pytest.raises(BadAnswer):
            decode([encode(value)[0].replace(part, other)], SHAPES)
    assert decode(encode(Point(3, 4.0)), SHAPES) == Point(3, 4.0)


U64 = struct.Struct("<Q").pack
COLLIDING = [each * ((1 << 61) - 1) for each in range(1, 200_000)]


@pytest.mark.parametrize(
    "message",
    [
        b"l" + U64(2**63),
        b"l" + U64(10**9) + b"N" * 1000,
        b"d" + U64(2**63),
        b"s" + U64(2**64 - 1),
        b"l" * 100_000,
        b"l" + (U64(1) + b"l") * 1000 + U64(0),
        b"d" + U64(1) + b"l" + U64(0) + b"N",
        b"S" + U64(1) + b"d" + U64(0),
        b"i" + U64(1 << 20) + b"\xff" * (1 << 20),
        b"D" + U64(10_000) + b"9" * 10_000,
        b"D" + U64(3) + b"abc",
        b"M" + U64(3) + b"now",
        b"w" + struct.pack("<iii", 2**31 - 1, 0, 0),
        b"B" + struct.pack("<I", 7),
        b"A" + U64(3) + b"|O8" + b"t" + U64(0) + b"b" + U64(8) + bytes(8),
        b"E" + U64(3) + b"a:b" + b"s" + U64(1) + b"x",
        b"NN",
        b"",
        b"cos\nsystem\n(S'true'\ntR.",
    ],
    ids=lambda each: repr(each[:12]),
)
def test_what_lies_is_refused_soon(message: bytes) -> None:
    began = time.process_time()
    with pytest.raises(BadAnswer):
        decode([message], SHAPES)
    assert time.process_time() - began < 2


def test_keys_that_are_made_to_collide_are_few() -> None:
    with pytest.raises(CannotReturn, match="return pairs"):
        encode(set(COLLIDING[:300]))
    half = b"S" + encode(COLLIDING[:250])[0][1:]
    for message in (b"S" + encode(COLLIDING)[0][1:], b"l" + U64(300) + half * 300):
        began = time.process_time()
        with pytest.raises(BadAnswer, match="hashes can be chosen"):
            decode([message], SHAPES)
        assert time.process_time() - began < 10
    many = {number: str(number) for number in range(100_000)}
    assert decode(encode(many), SHAPES) == many


def named(tag: bytes, data: bytes) -> bytes:
    return tag + U64(len(data)) + data


SMALL = {
    "a set": b"S" + U64(0), "a set of one": b"Z" + U64(1) + b"N", "a list": b"l" + U64(0), "a dict": b"d" + U64(0),
    "a set of five": b"S" + U64(5) + b"".join(named(b"i", bytes([each])) for each in range(5)),
    "a dict of one": b"d" + U64(1) + b"NN", "a path": b"P" + named(b"s", b"a"), "a decimal": named(b"D", b"1"),
    "an identifier": b"U" + bytes(16), "an int": named(b"i", b"\0\1\1"), "bytes": named(b"a", b"x"),
    "a text": named(b"s", "a\u20ac".encode()), "an array": named(b"A", b"<f8") + b"t" + U64(1)
    + named(b"i", b"\1") + named(b"b", bytes(8)), "an object": named(b"C", name_of(Point).encode()) + b"d" + U64(1)
    + named(b"s", b"x") + b"N",
}  # fmt: skip


@pytest.mark.parametrize("what", SMALL)
def test_what_is_small_when_it_arrives_is_bounded_when_it_is_read(what: str) -> None:
    count, message = 2000, SMALL[what]
    reader = decoder._ValueReader([b"l" + U64(count) + message * count], SHAPES)
    tracemalloc.start()
    try:
        found = reader.value()
        size = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert len(found) == count
    assert size / (decoder.MOST_VALUES - reader.left) < 112, "bytes for each value that it counts as"


def test_empty_sets_are_few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decoder, "MOST_VALUES", 1000)
    assert decode([b"l" + U64(249) + SMALL["a set"] * 249], SHAPES) == [set()] * 249
    with pytest.raises(BadAnswer, match="too many values"):
        decode([b"l" + U64(250) + SMALL["a set"] * 250], SHAPES)


def test_large_bytes_stand_beside() -> None:
    data = bytes(BESIDE)
    pieces = encode([data, b"small"])
    assert len(pieces) == 2 and len(pieces[0]) < 100
    assert decode(pieces, SHAPES) == [data, b"small"]


def test_arrays() -> None:
    numpy = pytest.importorskip("numpy")
    for array in (
        numpy.arange(10).reshape(2, 5),
        numpy.zeros((0, 3)),
        numpy.array(3.0),
        numpy.eye(200)[::-1],
    ):
        back = decode(encode(array), SHAPES)
        assert back.dtype == array.dtype and back.shape == array.shape and (back == array).all()
    for wrong in (numpy.array([object()]), numpy.zeros(2, dtype=[("a", "i4")])):
        with pytest.raises(CannotReturn):
            encode(wrong)
    head = b"A" + U64(3) + b"<i8"
    for shape in ((2**63,), (2**32, 2**32), (-1,), (1,) * 40, (3,)):
        with pytest.raises(BadAnswer):
            decode([head + encode(shape)[0] + b"b" + U64(8) + bytes(8)], SHAPES)


def test_an_identifier_is_its_bytes() -> None:
    value = uuid.UUID(int=5)
    assert decode(encode(value), SHAPES) == value


def flags(count: int) -> tuple[Any, Shapes]:
    kind = enum.Flag("Many", [f"F{each}" for each in range(count)])  # type: ignore[misc]
    return kind, Shapes({name_of(kind): kind})


def combined(kind: Any, name: str) -> bytes:
    return named(b"E", name_of(kind).encode()) + named(b"s", name.encode())


def kept(kind: Any) -> int:
    return len(kind._value2member_map_)


def test_flags_are_made_once_and_in_one_spelling() -> None:
    kind, shapes = flags(24)
    everything = ~kind(0)
    before = kept(kind)
    assert decode(encode(everything), shapes) is everything and kept(kind) == before
    for name in ("F1|F0", "F0|F0", "F0|", "|F0", "F0|F99", "F0|F1|F1", "F0|0x1000000"):
        with pytest.raises(BadAnswer, match="flag"):
            decode([combined(kind, name)], shapes)
    assert kept(kind) == before
    assert decode([combined(kind, "F0|F5|F9")], shapes) == kind.F0 | kind.F5 | kind.F9
    assert kept(kind) == before + 1 + 1  # `F0 | F5` of the line above is one of its own


def test_flags_that_are_defined_in_another_order_than_their_values() -> None:
    kind: Any = enum.Flag("Mixed", {"HIGH": 8, "LOW": 1, "BOTH": 9, "MIDDLE": 2})  # type: ignore[misc]
    shapes = Shapes({name_of(kind): kind})
    for value in range(12):
        if value & 4 == 0:
            assert decode(encode(kind(value)), shapes) is kind(value)


def test_different_combinations_of_flags_are_few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decoder, "MOST_COMBINED", 3)
    kind, shapes = flags(8)
    many = [combined(kind, f"F0|F{each}") for each in (1, 2, 3)]
    before = kept(kind)
    assert len(decode([b"l" + struct.pack("<Q", 6) + b"".join(many * 2)], shapes)) == 6
    with pytest.raises(BadAnswer, match="more than 3 different"):
        decode([b"l" + struct.pack("<Q", 5) + b"".join(many) + combined(kind, "F4|F5") * 2], shapes)
    assert kept(kind) == before + 3


class Nothing(NamedTuple):
    pass


@dataclass
class Fields:
    _fields: int


def test_whose_fields_are_none_or_are_called_so() -> None:
    shapes = Shapes({}, {name_of(each): each for each in (Nothing, Fields)})
    for value in (Nothing(), Fields(3)):
        assert same(decode(encode(value), shapes), value)


@pytest.mark.parametrize("kind", [dict.fromkeys, set])
@pytest.mark.parametrize("places", [(), (0,), (500, 501), (999,), (31, 32, 64)])
def test_only_keys_that_can_be_chosen_are_put_in_alone(
    monkeypatch: pytest.MonkeyPatch, kind: Any, places: tuple[int, ...]
) -> None:
    looks = []
    monkeypatch.setattr(decoder, "thread_time", lambda: looks.append(1) or 0.0)
    keys = [(number,) if number in places else str(number) for number in range(1000)]
    found = decode(encode(kind(keys)), Shapes())
    assert found == kind(keys) and (list(found) == keys or kind is set)
    assert len(looks) <= 2 * (1000 // decoder.PORTION + 1 + 2 * len(places))
