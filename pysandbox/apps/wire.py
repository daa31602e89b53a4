"""The records of the port, as bytes. Standard library alone: this file and `client.py` are what an app in a cage has.

    request   opcode u8, count u8, operands        reply   status u8, count u8 (0 or 1), value
    integer   "i", i64     text   "s", u32 length, UTF-8     bytes   "b", u32 length     handle   "h", u64

All numbers are little-endian; a record is one message of a SOCK_SEQPACKET socket, and is at most LARGEST bytes long.
"""

from __future__ import annotations

from struct import Struct
from struct import error as struct_error

VARIABLE = "PYSANDBOX_APP_PORT"  # the number of the descriptor
LARGEST = 1 << 16
HEAD, INTEGER, LENGTH, HANDLE = Struct("<BB"), Struct("<Bq"), Struct("<BI"), Struct("<BQ")
TAG_INTEGER, TAG_TEXT, TAG_BYTES, TAG_HANDLE = b"isbh"
LONG = (TAG_TEXT, TAG_BYTES)
read_length, read_integer, read_handle = LENGTH.unpack_from, INTEGER.unpack_from, HANDLE.unpack_from


class BadPortRecord(ValueError):
    """Bytes that are no record; says why."""


class HandleNumber(int):
    """A handle on the wire: a number of a type of its own."""


def packed(value: object) -> bytes:
    """Raises TypeError, OverflowError (ValueError for half of a surrogate pair)."""
    if type(value) is HandleNumber:
        return HANDLE.pack(TAG_HANDLE, value)
    if type(value) is int:
        if not -(1 << 63) <= value < 1 << 63:
            raise OverflowError("an integer on the port has 64 bits")
        return INTEGER.pack(TAG_INTEGER, value)
    if isinstance(value, str):
        text = value.encode()
        return LENGTH.pack(TAG_TEXT, len(text)) + text
    if isinstance(value, bytes):
        return LENGTH.pack(TAG_BYTES, len(value)) + value
    raise TypeError(f"the port carries integers, texts, bytes and handles, not {type(value).__name__}")


def record(head: int, values: tuple[object, ...]) -> bytes:
    """A request or a reply."""
    return HEAD.pack(head, len(values)) + b"".join(map(packed, values))


def parse(data: bytes) -> tuple[int, list[object]]:
    """The first byte, and the values, to the last byte. Raises BadPortRecord."""
    head, values, _ = read(data)
    return head, values


def read(data: bytes) -> tuple[int, list[object], bool]:
    """`parse`, and whether a handle is among the values. In one piece: every request waits for it."""
    size = len(data)
    handle = False
    if not 2 <= size <= LARGEST:
        raise BadPortRecord("a record has 2 to 65536 bytes")
    values: list[object] = []
    at = 2
    try:
        while at < size:
            tag = data[at]
            if tag in LONG:
                begin = at + 5
                at = begin + read_length(data, at)[1]
                if at > size:
                    raise BadPortRecord("a value is cut")
                values.append(data[begin:at].decode() if tag == TAG_TEXT else data[begin:at])
            elif tag == TAG_INTEGER:
                values.append(read_integer(data, at)[1])
                at += 9
            elif tag == TAG_HANDLE:
                values.append(HandleNumber(read_handle(data, at)[1]))
                handle = True
                at += 9
            else:
                raise BadPortRecord("a value is of no known type")
    except struct_error:
        raise BadPortRecord("a value is cut") from None
    except UnicodeDecodeError:
        raise BadPortRecord("a text is not UTF-8") from None
    if len(values) != data[1]:
        raise BadPortRecord("a record has as many values as it says")
    return data[0], values, handle
