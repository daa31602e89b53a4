"""The log of document 004: one record for each denied instruction, with its seven fields and no clock but ticks.

A record is kept as the line it is written as: canonical JSON, ASCII alone, so that nothing an app puts into its
operands can end a line or reach a terminal. Operands are shown by a fixed grammar that holds no content: a path and a
name quoted and cut, a handle as its number, a value as its type and length.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

from pysandbox.apps.opcodes import SCOPED, VALUE
from pysandbox.errors import AppError
from pysandbox.shapes import NamedTuple

CAPABILITY, SCOPE = "denied_capability", "denied_scope"
OWNER, KIND = "denied_handle_owner", "invalid_handle_kind"
REASONS = (CAPABILITY, SCOPE, OWNER, KIND)  # in the order in which they are found

SUMMARY, SHOWN = 80, 32  # characters: of a summary, of one operand in it


class DeniedInstruction(NamedTuple):
    """APP-16's fields, by their names."""

    tick: int
    app_id: str
    opcode: str
    args_summary: str
    deny_reason: str
    required_capability: str
    granted_capabilities_snapshot: tuple[str, ...]

    def line(self) -> bytes:
        return json.dumps(self._asdict(), sort_keys=True, separators=(",", ":")).encode("ascii")

    @classmethod
    def parse(cls, line: bytes) -> DeniedInstruction:
        fields = json.loads(line)
        snapshot = tuple(fields.pop("granted_capabilities_snapshot"))
        return cls(granted_capabilities_snapshot=snapshot, **fields)

    @classmethod
    def parse_log(cls, text: bytes) -> list[DeniedInstruction]:
        """The instructions that a `DenialLog.text` tells. Raises AppError for what is no such log."""
        try:
            found = [cls.parse(line) for line in text.split(b"\n") if line]
            if all(list(map(type, each)) == _TYPES for each in found):
                return found
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
            pass
        raise AppError("the log of the run is not as it was written", "run the app again: each run writes one")


_TYPES = [int, str, str, str, str, str, tuple]


class LogFull(Exception):
    """An app was denied more often than its log may hold: it ends, since a denial without a record may not be."""


class DenialLog:
    """The records of one run, at most `most` of them."""

    def __init__(self, most: int) -> None:
        self._lines: list[bytes] = []
        self._most = most

    def add(self, record: DeniedInstruction) -> None:
        """Raises LogFull, with the record in the log."""
        self._lines.append(record.line())
        if len(self._lines) >= self._most:
            raise LogFull

    def __len__(self) -> int:
        return len(self._lines)

    def __iter__(self) -> Iterator[DeniedInstruction]:
        return map(DeniedInstruction.parse, self._lines)

    def __getitem__(self, index: int) -> DeniedInstruction:
        return DeniedInstruction.parse(self._lines[index])

    def text(self) -> bytes:
        """The whole log, a record a line: what a replay compares."""
        return b"".join(line + b"\n" for line in self._lines)


def summary(kinds: Sequence[str], args: Sequence[object]) -> str:
    text = ",".join(_shown(kind, value) for kind, value in zip(kinds, args, strict=True))
    return text if len(text) <= SUMMARY else text[: SUMMARY - 3] + "..."


def _shown(kind: str, value: object) -> str:
    if kind in SCOPED and isinstance(value, str):
        text = json.dumps(value if len(value) <= SHOWN else value[: SHOWN - 3] + "...")
        return text.replace("\x7f", "\\u007f")
    if isinstance(value, str | bytes):
        return f"{'str' if isinstance(value, str) else 'bytes'}[{len(value)}]"
    return f"#{value:d}" if kind not in SCOPED and kind != VALUE and isinstance(value, int) else "int"
