"""What comes out of a cage as a value: plain data. This is the cage's end; the host's is `decoder`, which reads totally
and runs nothing of what it reads.

    pieces = encode(value)              in the cage: bytes, and the large buffers beside them
    value = decode(pieces, Shapes(...)) on the host: the value, or BadAnswer

The other direction may use pickle, since a cage may be told anything. This one may not: `pickle.loads` runs what it is
given. So a value is None, bool, int, float, complex, str, bytes, bytearray, list, tuple, dict, set, frozenset, a date,
a time, a datetime, a timedelta, Decimal, UUID, a path, an array of numbers, a table of Arrow (`tables`), or what the
function's annotation declares: enums, dataclasses and named tuples. All else is refused where it is made.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable

from pysandbox.pipeline import tables

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

DEEPEST = 64
LARGEST_INT = 1 << 17  # bytes: more digits than anybody means, and turning them into text takes time by the square
BESIDE = 64 * 1024  # bytes and arrays of this size on stand beside the message, and are not copied into it
MOST_CHOSEN = 256  # keys of one container whose hash a stranger can choose
UNCHOSEN = (1 << 61) - 1  # the modulus of a number's hash: ints below it have each their own
NUMBERS = frozenset("?bBhHiIlLqQefdgFD")  # what numpy calls its types of numbers; no object, nothing with fields

U32, U64, F64, C128, SPAN = (struct.Struct(each) for each in ("<I", "<Q", "<d", "<dd", "<iii"))


class CannotReturn(TypeError):
    """A value that no answer can hold."""


def name_of(kind: type) -> str:
    return f"{kind.__module__}:{kind.__qualname__}"


def is_named_tuple(kind: type) -> bool:
    return issubclass(kind, tuple) and hasattr(kind, "_fields")


def has_own_hash(key: object) -> bool:
    """Whether nobody chooses its hash: that of text is seeded, and few numbers of these types have the same."""
    if type(key) is int:
        return -UNCHOSEN < key < UNCHOSEN
    return key is None or type(key) in (str, bytes, float, bool)


def _check_keys(keys: Any) -> None:
    chosen = sum(1 for each in keys if not has_own_hash(each))
    if chosen > MOST_CHOSEN:
        raise CannotReturn(f"cannot return {chosen} keys that are neither text nor ordinary numbers: return pairs")


class _ValueWriter:
    def __init__(self) -> None:
        self.out = bytearray()
        self.beside: list[Any] = []

    def sized(self, tag: bytes, data: Any) -> None:
        self.out += tag + U64.pack(len(data))
        self.out += data

    def value(self, value: Any, depth: int = 0) -> None:
        kind = type(value)
        if depth > DEEPEST:
            raise CannotReturn(f"cannot return what is more than {DEEPEST} levels deep, or holds itself")
        if kind in _PLAIN:
            _PLAIN[kind](self, value)
        elif kind in _MANY:
            if kind not in (list, tuple):
                _check_keys(value)
            items = [part for pair in value.items() for part in pair] if kind is dict else list(value)
            self.out += _MANY[kind] + U64.pack(len(value))
            for item in items:
                self.value(item, depth + 1)
        else:
            self.other(value, depth)

    def other(self, value: Any, depth: int) -> None:
        """What needs a module of the standard library, or numpy, to be told."""
        import dataclasses
        import enum

        kind = type(value)
        if isinstance(value, enum.Enum):
            self.sized(b"E", name_of(kind).encode())
            self.value(value.name or "", depth + 1)  # none: a flag that has none of its members
        elif dataclasses.is_dataclass(value) and not isinstance(value, type):
            names = (field.name for field in dataclasses.fields(value) if field.init)
            self.of_fields(value, names, depth)
        elif is_named_tuple(kind):
            self.of_fields(value, kind._fields, depth)
        elif kind.__module__ == "numpy":
            self.of_numpy(value)
        elif tables.is_table(kind):
            self.table(value)
        else:
            self.of_library(value, depth)

    def of_fields(self, value: Any, names: Iterable[str], depth: int) -> None:
        self.sized(b"C", name_of(type(value)).encode())
        self.value({name: getattr(value, name) for name in names}, depth + 1)

    def of_numpy(self, value: Any) -> None:
        code = getattr(getattr(value, "dtype", None), "char", "O")
        if code not in NUMBERS:
            raise CannotReturn(f"cannot return {type(value).__name__} of dtype {getattr(value, 'dtype', '?')}")
        if not hasattr(value, "__array_interface__") or type(value).__name__ != "ndarray":
            return self.value(value.item())
        import numpy

        array = numpy.ascontiguousarray(value)
        self.sized(b"A", value.dtype.str.encode())
        self.value(tuple(value.shape))
        return self.buffer(memoryview(array.reshape(-1).view("B")) if array.size else b"")

    def table(self, value: Any) -> None:
        try:
            rows, columns, buffers = tables.taken_apart(value)
        except tables.NotATable as error:
            raise CannotReturn(str(error)) from None
        self.out += b"R"
        self.value(rows)
        self.value(columns)
        for buffer in (each for column in buffers for each in column):
            self.value(None) if buffer is None else self.buffer(buffer)

    def buffer(self, data: Any) -> None:
        if len(data) < BESIDE:
            self.sized(b"b", data)
        else:
            self.out += b"B" + U32.pack(len(self.beside))
            self.beside.append(data)

    def of_library(self, value: Any, depth: int) -> None:
        import datetime as dates
        import decimal
        import pathlib
        import uuid

        kind = type(value)
        if kind in (dates.date, dates.time, dates.datetime):
            zone = None if kind is dates.date else value.utcoffset()
            if kind is dates.time and value.tzinfo is not None and zone is None:
                raise CannotReturn("cannot return a time whose zone depends on the day")
            self.sized(
                b"y" if kind is dates.date else b"m" if kind is dates.time else b"M",
                value.isoformat().encode(),
            )
        elif kind is dates.timedelta:
            self.out += b"w" + SPAN.pack(value.days, value.seconds, value.microseconds)
        elif kind is decimal.Decimal:
            self.sized(b"D", str(value).encode())
        elif kind is uuid.UUID:
            self.out += b"U" + value.bytes
        elif isinstance(value, pathlib.PurePath):
            self.out += b"P"
            self.value(str(value), depth)
        else:
            raise CannotReturn(
                f"cannot return {kind.__module__}.{kind.__qualname__}: return plain data, an array, or a dataclass, "
                "an enum or a named tuple that the annotation declares"
            )


def _int(writer: _ValueWriter, value: int) -> None:
    size = value.bit_length() // 8 + 1
    if size > LARGEST_INT:
        raise CannotReturn(f"cannot return an int of {size} bytes")
    writer.sized(b"i", value.to_bytes(size, "little", signed=True))


def _complex(writer: _ValueWriter, value: complex) -> None:
    writer.out += b"c" + C128.pack(value.real, value.imag)


_PLAIN: dict[type, Callable[[_ValueWriter, Any], None]] = {
    type(None): lambda writer, _: writer.out.extend(b"N"),
    bool: lambda writer, value: writer.out.extend(b"T" if value else b"F"),
    int: _int,
    float: lambda writer, value: writer.out.extend(b"f" + F64.pack(value)),
    complex: _complex,
    str: lambda writer, value: writer.sized(b"s", value.encode("utf-8", "surrogatepass")),
    bytes: lambda writer, value: writer.buffer(value),
    bytearray: lambda writer, value: writer.sized(b"a", value),
}
_MANY: dict[type, bytes] = {list: b"l", tuple: b"t", dict: b"d", set: b"S", frozenset: b"Z"}


def encode(value: object) -> list[Any]:
    """The message, and the buffers beside it. Raises CannotReturn."""
    writer = _ValueWriter()
    writer.value(value)
    return [bytes(writer.out), *writer.beside]
