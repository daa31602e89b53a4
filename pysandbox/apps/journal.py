"""What came in to an app's run, written down, and the run repeated from it: the same denials and the same log, byte for
byte, under every Python.

A journal is lines of canonical JSON. The first says whose run it was: app, version, digests of package and rights,
budget. One follows for each call of the kernel, with what it returned; on a port one for each request, too. The last
closes it: how the run ended, and a digest of every line before. A journal that was cut, edited or reordered, or is of
another grant, is refused before anything is repeated. One that holds as much as its quota ends the run before its next
effect, so that what is there is whole, and repeats it to that end.

Nothing else comes in: no clock but ticks, no randomness (the numbers of handles are in the journal), no environment, no
locale, no order of a set or a dictionary.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import stat
import tempfile
import weakref
from base64 import b64decode
from binascii import b2a_base64
from collections.abc import Iterator, Sequence
from json.encoder import encode_basestring_ascii

from pysandbox.apps.denials import REASONS
from pysandbox.apps.dispatch import Calls
from pysandbox.apps.handles import SideTable
from pysandbox.apps.kernel.owned import WrapperDenied
from pysandbox.errors import AppError
from pysandbox.shapes import Any, NamedTuple

FORMAT = 1
RUN_AGAIN = "run the app again: each run writes a journal"
OK, DENIED, FAILED, ASKED = "ok", "denied", "failed", "asked"  # what a line is of: answers of the kernel, a request
NOTHING = {kind: f'["{kind}",null]\n' for kind in (OK, DENIED, FAILED, ASKED)}
FULL = "journal full"  # how a run ends that came to its quota
QUOTA = 128 << 20  # bytes, unless the budget has another one
LARGEST = 1 << 30  # bytes of one that is read
TOGETHER = 256  # lines
PIECE = 1 << 20
VALUES = (int, str, bytes, type(None))  # what a wrapper gives
NUMBERS = {name: number for number, name in errno.errorcode.items()}
_ENDED = re.compile(r"[\x20-\x7e]{1,200}")
IN_MEMORY = 1 << 20  # bytes; what is more goes to a file without a name


def canonical_line(value: object) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode("ascii") + b"\n"


def in_json(value: object) -> str:
    """The text of one value: an integer, a text or None as JSON has it, bytes as {"b": base64}. Written by hand, since
    every effect waits for it."""
    if value is None:
        return "null"
    if type(value) is int:
        return int.__repr__(value)
    if isinstance(value, str):
        return encode_basestring_ascii(value)
    if isinstance(value, bytes):
        return f'{{"b":"{b2a_base64(value, newline=False).decode()}"}}'
    raise AppError(f"the kernel gave {type(value).__name__}, which is no value", "report it")


def unpacked(value: Any) -> Any:
    return b64decode(value["b"]) if isinstance(value, dict) else value


class JournalFull(Exception):
    """The journal has come to its quota: the run ends, since what is not written down cannot be repeated."""


class AppJournal:
    """The lines of one run, as they come. `close` once nobody reads it any more; the end of the object does it, too.

    Lines are written together, to a file that has no name: a host that is killed leaves no half of a journal."""

    def __init__(self, header: dict[str, object], quota: int = QUOTA) -> None:
        self.full = quota <= 0  # asked before anything happens that is then noted; a note may pass the quota once
        self._room = quota
        self._waiting: list[str] = []  # lines that are not written yet: one by one costs more
        self._lines = tempfile.SpooledTemporaryFile(IN_MEMORY)  # noqa: SIM115
        self.close = weakref.finalize(self, self._lines.close)
        self._waiting.append(canonical_line({"format": FORMAT, **header}).decode())

    def note(self, kind: str, value: object) -> None:
        """Raises AppError where it cannot be written."""
        line = NOTHING[kind] if value is None else f'["{kind}",{in_json(value)}]\n'
        self._waiting.append(line)
        self._room -= len(line)
        if len(self._waiting) >= TOGETHER or self._room <= 0:
            self._flush()

    def note_request(self, request: bytes) -> None:
        """`note`, of what came over a port; raises JournalFull."""
        if self.full:
            raise JournalFull
        line = f'["{ASKED}",{{"b":"{b2a_base64(request, newline=False).decode()}"}}]\n'
        self._waiting.append(line)
        self._room -= len(line)
        if len(self._waiting) >= TOGETHER or self._room <= 0:
            self._flush()

    def end(self, ended: str, ticks: int, log: bytes) -> None:
        """The last line. Raises AppError."""
        self._flush()
        digest = hashlib.sha256()
        for piece in self.pieces():
            digest.update(piece)
        last = {"ended": ended, "ticks": ticks, "log": _sha256(log), "lines": digest.hexdigest()}
        self._write(canonical_line(last))

    def text(self) -> bytes:
        """The whole of it."""
        return b"".join(self.pieces())

    def pieces(self) -> Iterator[bytes]:
        """The whole of it, in parts."""
        self._lines.seek(0)
        while piece := self._lines.read(PIECE):
            yield piece

    def _flush(self) -> None:
        self.full = self._room <= 0
        lines = "".join(self._waiting).encode("ascii")
        self._waiting.clear()
        self._write(lines)

    def _write(self, lines: bytes) -> None:
        """A journal that cannot be written is no failure of the app's own, and no app runs without one."""
        try:
            self._lines.write(lines)
        except OSError as error:
            where = tempfile.gettempdir()
            raise AppError(f"the journal cannot be written to {where}: {error.strerror}", "make room there") from None


class Recorded(NamedTuple):
    """A journal that was read: `came` are kind and value of what came in."""

    header: dict[str, Any]
    came: list[tuple[str, Any]]
    ended: str
    ticks: int
    log: str

    @classmethod
    def parse(cls, text: bytes) -> Recorded:
        """Raises AppError for what is no whole journal."""
        lines = text.splitlines(keepends=True)
        try:
            header, *came, last = (json.loads(line) for line in lines)
            whole = text.endswith(b"\n") and last["lines"] == _sha256(b"".join(lines[:-1]))
            found = cls(header, [(kind, unpacked(value)) for kind, value in came], last["ended"], last["ticks"],
                        last["log"])  # fmt: skip
            known = (
                header["format"] == FORMAT and _ENDED.fullmatch(found.ended) is not None and type(found.ticks) is int
            )
            known = known and all(type(kind) is str and type(value) in VALUES for kind, value in found.came)
        except (ValueError, TypeError, KeyError, RecursionError):
            raise AppError("the journal is none, or was cut", RUN_AGAIN) from None
        if not whole or not known:
            raise AppError("the journal is not as it was written: its digest differs", RUN_AGAIN)
        return found

    def is_of(self, ended: str, ticks: int, log: bytes) -> bool:
        """Whether that run is the recorded one, to the last byte of its log."""
        return (ended, ticks, _sha256(log)) == (self.ended, self.ticks, self.log)


def read_journal(path: str) -> bytes:
    """A file that may be a journal: a regular one. Raises AppError, OSError."""
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    try:
        found = os.fstat(fd)
        if not stat.S_ISREG(found.st_mode) or found.st_size > LARGEST + PIECE:  # a quota is passed once
            raise AppError(f"{path} is no journal", RUN_AGAIN)
        with open(fd, "rb", closefd=False) as stream:
            return stream.read()
    finally:
        os.close(fd)


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


class RecordingCalls:
    """A kernel, each of whose answers goes into a journal."""

    def __init__(self, calls: Calls, journal: AppJournal) -> None:
        self.table, self._call, self._journal, self._note = calls.table, calls.call, journal, journal.note

    def call(self, name: str, owner: str, args: Sequence[Any]) -> Any:
        """Raises JournalFull, with no effect."""
        if self._journal.full:
            raise JournalFull
        try:
            value = self._call(name, owner, args)
        except WrapperDenied as denied:
            self._note(DENIED, denied.reason)
            raise
        except OSError as error:
            self._note(FAILED, errno.errorcode.get(error.errno or 0, "EIO"))
            raise
        self._note(OK, value)
        return value


class ReplayedCalls:
    """No kernel: its answers come from a journal, and nothing has an effect."""

    def __init__(self, recorded: Recorded) -> None:
        self.table = SideTable()
        self._came, self._at, self._full = recorded.came, 0, recorded.ended == FULL

    def call(self, name: str, owner: str, args: Sequence[Any]) -> Any:
        kind, value = self.take()
        if kind == DENIED and value in REASONS:
            raise WrapperDenied(value)
        if kind == FAILED and value in NUMBERS:
            raise OSError(NUMBERS[value], value)
        if kind != OK:
            raise differs()
        return value

    def take(self) -> tuple[str, Any]:
        """What came in next. Raises AppError where nothing did, JournalFull where the journal had no room for it."""
        if not self.left:
            raise JournalFull if self._full else differs()
        self._at += 1
        return self._came[self._at - 1]

    @property
    def left(self) -> bool:
        return self._at < len(self._came)


def differs() -> AppError:
    return AppError("the run asks for something else than the journal has", "replay it with the program of that run")
