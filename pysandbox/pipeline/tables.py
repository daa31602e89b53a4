"""Tables of Arrow as plain buffers, column by column. Both ends, like the codec, which carries what this tells.

    rows, columns, buffers = taken_apart(table)               in the cage
    table = put_together(pyarrow, rows, columns, buffers)     on the host, with the program's own pyarrow

Arrow has a format for this (IPC). It is not used: who reads it believes a stranger's metadata, in C++. Here the type of
a column is one of a short list, the size of each buffer is compared with what so many rows of that type need, and
Arrow's own full validation (offsets that only grow and stay within, text that is UTF-8) is the last word. Columns of
columns, dictionaries and extensions are refused where they are made, by the column's name.
https://arrow.apache.org/docs/format/Columnar.html
"""

from __future__ import annotations

from collections.abc import Sequence

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

MOST_COLUMNS = 4096
WIDTHS = {  # bits of a value; 0: its bytes stand in a third buffer, and the second holds where each begins
    "bool": 1, "int8": 8, "uint8": 8, "int16": 16, "uint16": 16, "halffloat": 16, "int32": 32, "uint32": 32,
    "float": 32, "date32": 32, "int64": 64, "uint64": 64, "double": 64, "date64": 64, "string": 0, "binary": 0,
    "large_string": 0, "large_binary": 0,
}  # fmt: skip
NAMES = {"bool": "bool_", "halffloat": "float16", "float": "float32", "double": "float64"}  # as pyarrow's functions
UNITS = {  # of time, and their bits
    "time32[s]": 32, "time32[ms]": 32, "time64[us]": 64, "time64[ns]": 64,
    **{f"{name}[{unit}]": 64 for name in ("timestamp", "duration") for unit in ("s", "ms", "us", "ns")},
}  # fmt: skip
ZONED = r"(timestamp)\[(s|ms|us|ns), tz=([A-Za-z0-9_+:/-]{1,64})\]"
DAYS = r"(date(?:32|64))\[(?:day|ms)\]"  # as pyarrow writes them


class NotATable(ValueError):
    """What cannot be told as one, or is none."""


def is_table(kind: type) -> bool:
    return kind.__module__.partition(".")[0] == "pyarrow" and kind.__name__ in ("Table", "RecordBatch")


# ---- in the cage ---------------------------------------------------------------------------------------------------


def taken_apart(table: Any) -> tuple[int, list[tuple[str, str]], list[list[Any]]]:
    """Rows; name and type of each column; its buffers, None for one that is not there. Raises NotATable."""
    import re

    import pyarrow

    if type(table).__name__ == "RecordBatch":
        table = pyarrow.Table.from_batches([table])
    columns, buffers = [], []
    for name, column in zip(table.column_names, table.columns, strict=True):
        kind = re.sub(DAYS, r"\1", str(column.type))
        if _bits(kind) is None:
            can = "numbers, booleans, text, bytes, dates and times can be"
            raise NotATable(f"cannot return column {name!r} of type {column.type}: {can}")
        columns.append((name, kind))
        buffers.append([_bytes_of(each) for each in _whole(pyarrow, column).buffers()])
    return table.num_rows, columns, buffers


def _whole(pyarrow: Any, column: Any) -> Any:
    """One array that begins where its buffers do."""
    chunks = list(column.chunks) or [pyarrow.array([], column.type)]
    if len(chunks) == 1 and not chunks[0].offset:
        return chunks[0]
    return pyarrow.concat_arrays([*chunks, chunks[0].slice(0, 0)])  # of two and more it makes a new one


def _bytes_of(buffer: Any) -> Any:
    return None if buffer is None else memoryview(buffer).cast("B")


# ---- on the host ---------------------------------------------------------------------------------------------------


def zone_of(kind: str) -> Any:
    """The match of a timestamp with a zone: its unit and its zone are groups."""
    import re  # here: an interpreter that waits for a call has no use for it

    return re.fullmatch(ZONED, kind)


def _bits(kind: str) -> int | None:
    found = WIDTHS.get(kind, UNITS.get(kind))
    return 64 if found is None and zone_of(kind) else found


def buffers_of(kind: str) -> int:
    """How many a column of this type has. Raises NotATable."""
    bits = _bits(kind)
    if bits is None:
        raise NotATable(f"has a column of {kind!r:.80}")
    return 2 if bits else 3


def checked_columns(told: object) -> list[tuple[str, str]]:
    """Raises NotATable."""
    if type(told) is not list or len(told) > MOST_COLUMNS:
        raise NotATable(f"has a table of no columns, or of more than {MOST_COLUMNS}")
    for each in told:
        if type(each) is not tuple or [type(part) for part in each] != [str, str]:
            raise NotATable("has a column without name and type")
    return told


def put_together(pyarrow: Any, rows: object, columns: Sequence[tuple[str, str]], buffers: Sequence[list[Any]]) -> Any:
    """Raises NotATable, and what pyarrow raises of a column that is not valid."""
    if type(rows) is not int or not 0 <= rows < 1 << 48:
        raise NotATable(f"has a table of {rows!r:.40} rows")
    arrays = [_array(pyarrow, rows, kind, each) for (_, kind), each in zip(columns, buffers, strict=True)]
    if not arrays and rows:
        raise NotATable(f"has a table of {rows} rows without a column")
    return pyarrow.Table.from_arrays(arrays, names=[name for name, _ in columns])


def _array(pyarrow: Any, rows: int, kind: str, buffers: list[Any]) -> Any:
    made = _type(pyarrow, kind)
    if not rows:
        return pyarrow.array([], made)
    for which, (buffer, needed) in enumerate(zip(buffers, _sizes(kind, rows), strict=True)):
        if len(buffer or b"") < needed and (which or buffer is not None):  # no first one: no value is null
            raise NotATable(f"has a column of {rows} rows whose buffers are too short")
    views = [None if each is None else pyarrow.py_buffer(each) for each in buffers]
    array = pyarrow.Array.from_buffers(made, rows, views)
    array.validate(full=True)
    return array


def _sizes(kind: str, rows: int) -> list[int]:
    """Bytes that each buffer has at least: which are null, then the values, or their places and their bytes."""
    bits, present = _bits(kind), (rows + 7) // 8
    if bits:
        return [present, (rows * bits + 7) // 8]
    return [present, (rows + 1) * (8 if kind.startswith("large_") else 4), 0]


def _type(pyarrow: Any, kind: str) -> Any:
    if zoned := zone_of(kind):
        return pyarrow.timestamp(zoned[2], tz=zoned[3])
    name, _, unit = kind.rstrip("]").partition("[")
    make = getattr(pyarrow, NAMES.get(name, name))
    return make(unit) if unit else make()
