"""Tables of Arrow between a cage and its host: what comes back is what went, and no bytes make a table that is not."""

from __future__ import annotations

import datetime as dates
import random
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from _support.numbers import imported
from pysandbox.pipeline.codec import BESIDE, CannotReturn, encode
from pysandbox.pipeline.decoder import BadAnswer, Shapes, decode

arrow = imported("pyarrow")
if arrow is None:
    pytest.skip("pyarrow is not installed", allow_module_level=True)
KINDS = {
    **{name: [1, None, 3] for name in ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")},
    **{name: [1.5, None, -2.0] for name in ("float32", "float64")},
    "bool_": [True, None, False], "string": ["a", None, "ü" * 9], "large_string": ["a", "", None],
    "binary": [b"\0", None, b"xyz"], "large_binary": [b"", None, b"z"], "date32": [dates.date(2026, 1, 2), None],
    "date64": [dates.date(2026, 1, 2), None],
}  # fmt: skip
UNITS = [arrow.timestamp("us"), arrow.timestamp("ns", tz="Europe/Berlin"), arrow.time32("s"), arrow.time64("us"),
         arrow.duration("ms")]  # fmt: skip


def of_all_kinds() -> object:
    columns = {name: arrow.array([*values, None][:3], getattr(arrow, name)()) for name, values in KINDS.items()}
    for kind in UNITS:
        numbers = arrow.int64() if kind.bit_width == 64 else arrow.int32()
        columns[str(kind)] = arrow.array([1, None, 3], numbers).cast(kind)
    return arrow.table(columns)


def back(table: object) -> object:
    return decode(encode(table), Shapes())


def test_columns_of_every_kind_come_back() -> None:
    table = of_all_kinds()
    assert back(table).equals(table) and back(table).schema.equals(table.schema)


@given(st.lists(st.none() | st.text(), max_size=40), st.integers(0, 40), st.integers(0, 40), st.booleans())
def test_a_part_of_a_table_and_one_of_several_chunks(values: list, begin: int, size: int, chunked: bool) -> None:
    whole = arrow.table({"x": arrow.array(values, arrow.string()), "y": arrow.array(range(len(values)), arrow.int32())})
    part = whole.slice(begin, size)
    if chunked:
        part = arrow.concat_tables([part, whole, part])
    found = back(part)
    assert found.equals(part) and found.column("x").to_pylist() == part.column("x").to_pylist()


def test_without_rows_or_columns() -> None:
    for table in (of_all_kinds().slice(0, 0), arrow.table({}), arrow.table({"": arrow.array([], arrow.bool_())})):
        assert back(table).equals(table)


def test_a_batch_comes_back_as_a_table() -> None:
    batch = arrow.record_batch({"x": [1, 2]})
    assert back(batch).equals(arrow.Table.from_batches([batch]))


def test_a_large_column_stands_beside_and_is_not_copied() -> None:
    numbers = arrow.table({"x": arrow.array(range(BESIDE), arrow.int64())})
    pieces = encode(numbers)
    assert len(pieces) == 2 and len(pieces[0]) < 200
    mine = bytearray(pieces[1])
    found = decode([pieces[0], mine], Shapes())
    mine[:8] = struct.pack("<q", 77)
    assert found.column("x")[0].as_py() == 77


@pytest.mark.parametrize(
    "values", [[[1]], [{"a": 1}], [None], arrow.array(["a"]).dictionary_encode(), arrow.array([1], arrow.decimal128(5))]
)
def test_what_no_short_list_has_is_refused_by_the_column_s_name(values: object) -> None:
    with pytest.raises(CannotReturn, match="column 'odd'"):
        encode(arrow.table({"fine": [1], "odd": values}))


U64 = struct.Struct("<Q").pack


def message(rows: int, columns: object, *buffers: bytes | None) -> bytes:
    told = b"R" + encode(rows)[0] + encode(columns)[0]
    return told + b"".join(b"N" if each is None else b"b" + U64(len(each)) + each for each in buffers)


OFFSETS = struct.pack("<3i", 0, 2, 4)


@pytest.mark.parametrize(
    "lie",
    [
        message(2, [("x", "string")], None, struct.pack("<3i", 0, 2, 5), b"abcd"),  # beyond its bytes
        message(2, [("x", "string")], None, struct.pack("<3i", 0, -2, 4), b"abcd"),
        message(2, [("x", "string")], None, struct.pack("<3i", 0, 3, 2), b"abcd"),  # backwards
        message(2, [("x", "string")], None, OFFSETS, b"ab\xff\xfe"),  # no UTF-8
        message(2, [("x", "string")], None, OFFSETS[:8], b"abcd"),
        message(2, [("x", "string")], None, None, b"abcd"),
        message(2, [("x", "string")], None, OFFSETS, None),
        message(2, [("x", "int64")], None, bytes(15)),
        message(2, [("x", "int64")], None, None),
        message(2, [("x", "int64")], b"", bytes(16)),
        message(9, [("x", "int8")], b"\0", bytes(9)),
        message(2**62, [("x", "bool")], None, bytes(8)),
        message(-1, [("x", "bool")], None, bytes(8)),
        message(True, [("x", "bool")], None, bytes(8)),
        message(2, []),
        message(1, [("x", "list<item: int64>")], None, bytes(8)),
        message(1, [("x", "extension")], None, bytes(8)),
        message(1, [("x", "timestamp[us, tz=" + "A" * 99 + "]")], None, bytes(8)),
        message(1, [("x",)], None, bytes(8)),
        message(1, {"x": "int64"}, None, bytes(8)),
        message(0, [("x", "null")] * 5000),
        message(1, [("x", "date64")], None, struct.pack("<q", 1)),  # no whole day
    ],
)
def test_a_table_that_lies_is_refused(lie: bytes) -> None:
    with pytest.raises(BadAnswer):
        decode([lie], Shapes())


def test_no_changed_byte_makes_anything_but_a_table_or_an_error() -> None:
    draw = random.Random(1)
    good = encode(of_all_kinds())[0]
    assert decode([good], Shapes()).num_rows == 3
    for _ in range(3000):
        changed = bytearray(good)
        for _ in range(draw.randint(1, 3)):
            changed[draw.randrange(len(changed))] = draw.randrange(256)
        try:
            found = decode([changed], Shapes())
        except BadAnswer:
            continue
        if isinstance(found, arrow.Table):
            found.validate(full=True)
            assert found.nbytes < 1 << 20
