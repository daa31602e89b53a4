"""Reading a stream back: every record of every file, with what is wrong between them.

`read` yields records and breaks in the order they stand; `verify` reads all of it and sums up. A torn line is what a
crash leaves; a writer that finds one says so in the record after it. Everything else that does not fit is a break.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial

from pysandbox.audit import files
from pysandbox.audit.chain import START, Link, hash_of
from pysandbox.errors import AuditError
from pysandbox.events import AUDIT_RESUMED
from pysandbox.shapes import IO, Any, dataclass

LONGEST_LINE = 64 << 20  # bytes; what has no line's end for longer is no record
DAMAGED = "not a record as it was written"


@dataclass(frozen=True, slots=True)
class AuditRecord:
    seq: int
    time: str
    pid: int
    type: str
    data: dict[str, Any]
    prev: str
    hash: str

    @property
    def invocation(self) -> str:
        return str(self.data.get("invocation_id", ""))


@dataclass(frozen=True, slots=True)
class Break:
    """One place where the stream is not what was written. `kind`: damaged, order, missing, torn."""

    kind: str
    file: str
    line: int
    message: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.kind}: {self.message}"


@dataclass(frozen=True, slots=True)
class ChainReport:
    """`breaks`: what somebody changed or lost. `torn`: lines that a crash cut off, with a notice after it, or at the
    end. `first` above 1: the files before it are not here."""

    path: str
    files: int
    records: int
    first: int
    last: Link
    breaks: tuple[Break, ...]
    torn: tuple[Break, ...]

    @property
    def ok(self) -> bool:
        return not self.breaks


@dataclass(frozen=True, slots=True)
class _Picture:
    """A stream between two records: the head, and how far to read each file."""

    head: bytes | None
    files: tuple[tuple[str, int], ...]


def _take_picture(path: str) -> tuple[_Picture, IO[bytes] | None]:
    """With the current file open, as a writer may rename it a moment later."""
    with ExitStack() as stack:
        head = None
        if os.path.exists(files.head_path(path)):
            file = stack.enter_context(files.open_stream(files.head_path(path)))
            fcntl.flock(file, fcntl.LOCK_SH)  # no writer is in the middle of a record
            head = file.read(files.HEAD_SIZE + 1)
        found = tuple((each, os.path.getsize(each)) for each in files.all_files(path))
        current = files.open_stream(path) if found and found[-1][0] == path else None
        return _Picture(head, found), current


def read(path: str, since: int = 0) -> Iterator[AuditRecord | Break]:
    """Records in order; wherever the chain does not hold, a Break first. With `since`, full files that end at or before
    that record are left out."""
    path = os.path.abspath(path)
    picture, current = _take_picture(path)
    with ExitStack() as stack:
        if current is not None:
            stack.enter_context(current)
        after: Link | None = None
        for file, size in picture.files:
            if file != path and int(file.rpartition(".")[2]) <= since:
                continue
            stream = current if file == path and current else stack.enter_context(files.open_stream(file))
            for each in _in_file(file, _lines(stream, size), after, last=file == picture.files[-1][0]):
                if isinstance(each, AuditRecord):
                    after = Link(each.seq, each.hash)
                yield each
        yield from _against_the_head(files.head_path(path), picture.head, after)


def _lines(stream: IO[bytes], size: int) -> Iterator[tuple[int, bytes]]:
    for number, line in enumerate(iter(partial(stream.readline, LONGEST_LINE), b""), 1):
        yield number, line[:size]
        size -= len(line)
        if size <= 0:
            return


def _in_file(
    file: str, lines: Iterator[tuple[int, bytes]], after: Link | None, *, last: bool
) -> Iterator[AuditRecord | Break]:
    torn: tuple[int, bytes] | None = None
    for number, line in lines:
        record = parse(line)
        if torn is not None:
            yield _what_is_torn(file, torn, record)
            torn = None
        if record is None:
            torn = number, line
            continue
        found = _between(file, number, after, record)
        if found is not None:
            yield found
        after = Link(record.seq, record.hash)
        yield record
    if torn is not None and last and not torn[1].endswith(b"\n"):
        yield Break("torn", file, torn[0], "cut off in the middle")
    elif torn is not None:
        yield Break("damaged", file, torn[0], DAMAGED)


def parse(line: bytes) -> AuditRecord | None:
    """The record of a line with its newline, None unless the line is whole and its hash is its own."""
    digest = hash_of(line[:-1]) if line.endswith(b"\n") else None
    if digest is None:
        return None
    try:
        table = json.loads(line)
        return AuditRecord(
            int(table["seq"]), str(table["time"]), int(table["pid"]), str(table["type"]), dict(table["data"]),
            str(table["prev"]), digest,
        )  # fmt: skip
    except (ValueError, KeyError, TypeError, RecursionError):  # sealed, but not by us
        return None


def _what_is_torn(file: str, torn: tuple[int, bytes], record: AuditRecord | None) -> Break:
    number, line = torn
    told = record.data.get("torn_bytes") if record is not None and record.type == AUDIT_RESUMED.name else None
    if told == len(line.removesuffix(b"\n")):
        return Break("torn", file, number, "cut off by a crash, as the record after it says")
    return Break("damaged", file, number, DAMAGED)


def _between(file: str, number: int, after: Link | None, record: AuditRecord) -> Break | None:
    if after is None:
        if record.seq == 1 and record.prev != START.hash:
            return Break("order", file, number, "the first record follows on another one")
        return None
    if record.type == AUDIT_RESUMED.name and record.data.get("lost") and record.prev == after.hash:
        return Break("missing", file, number, f"records {after.seq + 1} to {record.seq - 1} were lost before this one")
    if record.seq == after.seq + 1 and record.prev == after.hash:
        return None
    if record.seq > after.seq + 1:
        return Break("missing", file, number, f"records {after.seq + 1} to {record.seq - 1} are not here")
    return Break("order", file, number, f"record {record.seq} does not follow on record {after.seq}")


def _against_the_head(file: str, text: bytes | None, after: Link | None) -> Iterator[Break]:
    if text is None:
        if after is not None:
            yield Break("missing", file, 1, "the head file, without which the end of the stream is uncertain")
        return
    head = files.read_head(text)
    if head is None:
        if after is not None or text:
            yield Break("damaged", file, 1, "not a head file as it was written")
        return
    promised, last = head[0], after or START
    if promised.seq > last.seq:
        yield Break("missing", file, 1, f"records {last.seq + 1} to {promised.seq} were written and are not here")
    elif promised.seq == last.seq and promised.hash != last.hash:
        yield Break("damaged", file, 1, f"record {last.seq} is not the one that was written")


def verify(path: str) -> ChainReport:
    """Raises AuditError where there is no stream at all: what is not there does not hold."""
    if not files.all_files(path):
        raise AuditError("is not there", None, path, "run something first, or name another stream with --path")
    breaks, torn, count, first, last = [], [], 0, 0, START
    for each in read(path):
        if isinstance(each, AuditRecord):
            count, first, last = count + 1, first or each.seq, Link(each.seq, each.hash)
        elif each.kind == "torn":
            torn.append(each)
        else:
            breaks.append(each)
    return ChainReport(path, len(files.all_files(path)), count, first, last, tuple(breaks), tuple(torn))


def records(path: str, since: int = 0) -> Iterator[AuditRecord]:
    """The records after number `since` that can be read, whatever stands between them."""
    return (each for each in read(path, since) if isinstance(each, AuditRecord) and each.seq > since)


def last_written(path: str) -> int:
    """The number of the last record, 0 where there is none or the head cannot tell."""
    try:
        with files.open_stream(files.head_path(path)) as stream:
            head = files.read_head(stream.read(files.HEAD_SIZE + 1))
    except FileNotFoundError:
        return 0
    return head[0].seq if head else 0
