"""A value that has come out of a cage, from the bytes of `codec`. Nothing of it is run.

What arrives decides nothing about the host: no module is imported because of it (`answers` has those of the standard
library; numpy is the program's own), and no name in it is looked up anywhere but in what the annotation declares.

Who decodes reads each byte once, also of the buffers beside the message, and makes at most MOST_VALUES values, DEEPEST
deep. What takes much memory for the few bytes that name it, an empty set or a path, counts as several (HEAVY), so that
all that is made of small things takes some 80 bytes a value. Keys whose hash a stranger can choose (large numbers,
Decimal, tuples, ...) are few. Those of the others differ, and yet numbers can be chosen so that all their probes in a
dict of many end in one long chain; and a few keys of one hash may each be long, and alike to their ends. So who makes
such a dict keeps to a time.
"""

from __future__ import annotations

import re
import struct
import sys
from collections.abc import Callable, Iterator, Sequence
from time import thread_time

from pysandbox.pipeline import tables
from pysandbox.pipeline.codec import (
    C128,
    DEEPEST,
    F64,
    LARGEST_INT,
    MOST_CHOSEN,
    NUMBERS,
    SPAN,
    U32,
    U64,
    has_own_hash,
    is_named_tuple,
)
from pysandbox.shapes import TYPE_CHECKING

if TYPE_CHECKING:
    from pysandbox.shapes import Any

MOST_VALUES = 5_000_000
# As how many values something counts beside itself, where it takes more memory than most: of 80 bytes each.
HEAVY = {b"d": 1, b"S": 3, b"Z": 3, b"A": 4, b"R": 16, b"C": 1, b"E": 1, b"D": 1, b"P": 2}
MOST_CHOSEN_IN_ALL = 65536  # keys of all containers whose hash a stranger can choose
PORTION, SMALL = 32, 256  # keys between two looks at the clock; as many as no look is worth
PATIENCE, OF_A_KEY = 0.5, 3e-6  # seconds of this thread's CPU for all such containers: ten times what honest ones take
MOST_COMBINED = 4096  # different combinations of flags: enum(3) keeps each for as long as the program runs
DTYPE = re.compile(r"[<>|][biufc][0-9]{1,2}")  # as ndarray.dtype.str tells one of NUMBERS
MOST_DIMENSIONS = 32


class BadAnswer(ValueError):
    """What a cage has sent is no value."""


class Shapes:
    """What a return annotation declares besides plain data: by name, "module:qualname"."""

    def __init__(self, enums: dict[str, Any] | None = None, classes: dict[str, Any] | None = None) -> None:
        self.enums = enums or {}
        self.classes = classes or {}


class _ValueReader:
    def __init__(self, pieces: Sequence[Any], shapes: Shapes) -> None:
        self.data = memoryview(pieces[0])
        self.beside = pieces[1:]
        self.shapes = shapes
        self.at = 0
        self.buffers_read = 0
        self.left = MOST_VALUES
        self.chosen = MOST_CHOSEN_IN_ALL
        self.patience = PATIENCE
        self.combined: dict[tuple[Any, str], Any] = {}

    def take(self, size: int) -> memoryview:
        if size > len(self.data) - self.at:
            raise BadAnswer("ends too early")
        self.at += size
        return self.data[self.at - size : self.at]

    def number(self, form: struct.Struct) -> Any:
        found = form.unpack(self.take(form.size))
        return found[0] if len(found) == 1 else found

    def sized(self) -> memoryview:
        return self.take(self.number(U64))

    def value(self, depth: int = 0) -> Any:
        tag = bytes(self.take(1))
        self.left -= 1 + HEAVY.get(tag, 0)
        read = _TAGS.get(tag)
        if read is None or depth > DEEPEST or self.left < 0:
            raise BadAnswer(
                f"has no value at byte {self.at}" if read is None else "is too deep, or has too many values"
            )
        return read(self, depth)

    def many(self, depth: int, each: int = 1) -> list[Any]:
        count = self.number(U64) * each
        if count > len(self.data) - self.at:
            raise BadAnswer("says that it has more values than bytes")
        return [self.value(depth + 1) for _ in range(count)]

    def portions(self, keys: list[Any]) -> Iterator[slice]:
        """The keys that are put into their container next. Raises BadAnswer for what can be none, or takes too long,
        since they are made to collide: by their hashes, or further on."""
        chosen, count = sum(1 for each in keys if not has_own_hash(each)), len(keys)
        self.chosen -= chosen
        if chosen > MOST_CHOSEN or self.chosen < 0:
            raise BadAnswer(f"has {chosen} keys whose hashes can be chosen")
        if not chosen and count <= SMALL:
            yield slice(count)
            return
        self.patience += count * OF_A_KEY
        for part in _in_parts(keys) if chosen else (slice(at, at + PORTION) for at in range(0, count, PORTION)):
            began = thread_time()
            yield part
            self.patience -= thread_time() - began
            if self.patience < 0:
                raise BadAnswer(f"has {count} keys whose places collide, as if they were chosen: return pairs")


def _in_parts(keys: list[Any]) -> Iterator[slice]:
    """A key whose hash can be chosen alone, since a few of them may take long; of the others PORTION together."""
    begin = 0
    for at, key in enumerate(keys):
        alone = not has_own_hash(key)
        if begin < at and (alone or at - begin == PORTION):
            yield slice(begin, at)
            begin = at
        if alone:
            yield slice(at, at + 1)
            begin = at + 1
    if begin < len(keys):
        yield slice(begin, len(keys))


def _read_int(reader: _ValueReader, depth: int) -> int:
    data = reader.sized()
    if len(data) > LARGEST_INT:
        raise BadAnswer(f"has an int of {len(data)} bytes")
    return int.from_bytes(data, "little", signed=True)


def _piece(reader: _ValueReader) -> Any:
    """The next one: a value is a copy of it, and one that is named a thousand times would be a thousand copies."""
    index = reader.number(U32)
    if index >= len(reader.beside) or index != reader.buffers_read:
        raise BadAnswer(f"names buffer {index} of {len(reader.beside)} after {reader.buffers_read} others")
    reader.buffers_read += 1
    return reader.beside[index]


def _read_dict(reader: _ValueReader, depth: int) -> dict[Any, Any]:
    flat = reader.many(depth, 2)
    keys, values = flat[::2], flat[1::2]
    found: dict[Any, Any] = {}
    for part in reader.portions(keys):
        found.update(zip(keys[part], values[part], strict=True))
    return found


def _read_set(reader: _ValueReader, depth: int) -> set[Any]:
    keys = reader.many(depth)
    found: set[Any] = set()
    for part in reader.portions(keys):
        found.update(keys[part])
    return found


def _imported(name: str) -> Any:
    """A module that this program has imported for reasons of its own. Raises BadAnswer."""
    found = sys.modules.get(name)
    if found is None:
        raise BadAnswer(f"has a value of {name}, which this program has not imported: import {name}, to receive some")
    return found


def _read_array(reader: _ValueReader, depth: int) -> Any:
    numpy, told = _imported("numpy"), _text(reader.sized())
    shape = reader.value(depth + 1)
    if not DTYPE.fullmatch(told):
        raise BadAnswer(f"has an array of {told!r:.80}")
    dtype = numpy.dtype(told)
    if dtype.char not in NUMBERS or type(shape) is not tuple or len(shape) > MOST_DIMENSIONS:
        raise BadAnswer(f"has an array of {dtype}")
    size = dtype.itemsize
    for each in shape:
        if type(each) is not int or each < 0:
            raise BadAnswer(f"has an array of the shape {shape!r:.80}")
        size *= each
    data = _read_buffer(reader)
    if data is None or len(data) != size:
        raise BadAnswer(f"has an array of {size} bytes in {len(data)}")
    return numpy.frombuffer(data, dtype=dtype).reshape(shape) if size else numpy.empty(shape, dtype)


def _read_buffer(reader: _ValueReader) -> Any:
    """One that may be written to: a view of its piece, or a copy of what stands in the message; None where none is."""
    tag = bytes(reader.take(1))
    if tag == b"N":
        return None
    return _piece(reader) if tag == b"B" else bytearray(reader.sized())


def _read_table(reader: _ValueReader, depth: int) -> Any:
    arrow, rows = _imported("pyarrow"), reader.value(depth + 1)
    columns = tables.checked_columns(reader.value(depth + 1))
    buffers = [[_read_buffer(reader) for _ in range(tables.buffers_of(kind))] for _, kind in columns]
    return tables.put_together(arrow, rows, columns, buffers)


def _text(data: memoryview) -> str:
    if len(data) > 4300:
        raise BadAnswer(f"has a name or number of {len(data)} letters")
    return bytes(data).decode("ascii")


def _read_enum(reader: _ValueReader, depth: int) -> Any:
    kind = _of_annotation(reader.shapes.enums, reader.sized())
    name = reader.value(depth + 1)
    if type(name) is str and name in kind.__members__:
        return kind[name]
    if type(name) is not str or not issubclass(kind, _imported("enum").Flag):
        raise BadAnswer(f"has an enum that {kind.__name__} lacks")
    if (kind, name) not in reader.combined:
        if len(reader.combined) == MOST_COMBINED:
            raise BadAnswer(f"has more than {MOST_COMBINED} different combinations of flags: return their values")
        reader.combined[kind, name] = kind(_combined(kind, name))
    return reader.combined[kind, name]


def _combined(kind: Any, name: str) -> int:
    """The value of several flags, or of none. Each once, as they are defined: so a value is written in one way."""
    value, left = 0, iter(kind.__members__)
    for each in name.split("|", len(kind.__members__)) if name else ():
        if each not in left:
            raise BadAnswer(f"has a flag that {kind.__name__} lacks, or flags in another order than it defines")
        value |= kind[each].value
    return value


def _of_annotation(kinds: dict[str, Any], told: memoryview) -> Any:
    """Raises BadAnswer, and says what to do: most often nobody has lied, and the annotation is missing."""
    name = str(bytes(told), "utf-8")
    if name not in kinds:
        raise BadAnswer(f"has a value of {name!r:.200}, which the return annotation does not declare: annotate the "
                        "function with its type, or say it with returns=")  # fmt: skip
    return kinds[name]


def _read_class(reader: _ValueReader, depth: int) -> Any:
    kind = _of_annotation(reader.shapes.classes, reader.sized())
    given = reader.value(depth + 1)
    if type(given) is not dict:
        raise BadAnswer(f"has no fields for {kind.__name__}")
    if is_named_tuple(kind):
        fields = kind._fields
    else:
        fields = [each.name for each in _imported("dataclasses").fields(kind) if each.init]
    if set(given) - set(fields):
        raise BadAnswer(f"has fields that {kind.__name__} lacks")
    return kind(**given)


def _read_iso(name: str) -> Callable[[_ValueReader, int], Any]:
    def read(reader: _ValueReader, depth: int) -> Any:
        return getattr(_imported("datetime"), name).fromisoformat(_text(reader.sized()))

    return read


def _read_span(reader: _ValueReader, depth: int) -> Any:
    days, seconds, microseconds = reader.number(SPAN)
    return _imported("datetime").timedelta(days, seconds, microseconds)


def _read_decimal(reader: _ValueReader, depth: int) -> Any:
    return _imported("decimal").Decimal(_text(reader.sized()))


def _read_uuid(reader: _ValueReader, depth: int) -> Any:
    return _imported("uuid").UUID(bytes=bytes(reader.take(16)))


def _read_path(reader: _ValueReader, depth: int) -> Any:
    text = reader.value(depth + 1)
    if type(text) is not str:
        raise BadAnswer("has a path that is no text")
    return _imported("pathlib").Path(text)


_TAGS: dict[bytes, Callable[[_ValueReader, int], Any]] = {
    b"N": lambda reader, depth: None,
    b"T": lambda reader, depth: True,
    b"F": lambda reader, depth: False,
    b"i": _read_int,
    b"f": lambda reader, depth: reader.number(F64),
    b"c": lambda reader, depth: complex(*reader.number(C128)),
    b"s": lambda reader, depth: str(reader.sized(), "utf-8", "surrogatepass"),
    b"b": lambda reader, depth: bytes(reader.sized()),
    b"a": lambda reader, depth: bytearray(reader.sized()),
    b"B": lambda reader, depth: bytes(_piece(reader)),
    b"l": lambda reader, depth: reader.many(depth),
    b"t": lambda reader, depth: tuple(reader.many(depth)),
    b"d": _read_dict,
    b"S": _read_set,
    b"Z": lambda reader, depth: frozenset(_read_set(reader, depth)),
    b"A": _read_array,
    b"R": _read_table,
    b"E": _read_enum,
    b"C": _read_class,
    b"y": _read_iso("date"),
    b"m": _read_iso("time"),
    b"M": _read_iso("datetime"),
    b"w": _read_span,
    b"D": _read_decimal,
    b"U": _read_uuid,
    b"P": _read_path,
}


def decode(pieces: Sequence[Any], shapes: Shapes) -> Any:
    """Raises BadAnswer; nothing else, whatever a cage has sent. Arrays beside the message are views of their piece."""
    try:
        reader = _ValueReader(pieces, shapes)
        value = reader.value()
        if reader.at != len(reader.data):
            raise BadAnswer("goes on after its end")
        return value
    except BadAnswer:
        raise
    except Exception as error:  # whatever a library says of what it was given
        raise BadAnswer(f"cannot be read: {type(error).__name__}: {error!s:.200}") from None
