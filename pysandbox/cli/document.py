"""The one JSON document of `pysandbox run --json`: what was captured and how the command ended."""

from __future__ import annotations

import os
import select
from dataclasses import asdict, is_dataclass

from pysandbox.exit_codes import OUT_OF_TIME
from pysandbox.shapes import IO, TYPE_CHECKING, Any, NamedTuple, Protocol

if TYPE_CHECKING:
    from pysandbox.cli.attend import Attendance
    from pysandbox.result import Result
    from pysandbox.stages import PipelineResult

CHUNK = 65536
Document = dict[str, Any]


class Capture:
    """One stream of the command, kept up to `limit` bytes and read to its end all the same."""

    def __init__(self, attendance: Attendance, stream: IO[bytes], limit: int) -> None:
        self.truncated = False
        self._kept = bytearray()
        self._limit = limit
        self._fd = stream.fileno()
        self._attendance = attendance
        os.set_blocking(self._fd, False)
        attendance.watch(self._fd, select.POLLIN, self._on_output)

    def drain(self) -> None:
        """Take what the command had written before it ended; what others still hold open is not waited for."""
        while self._take():
            pass

    @property
    def text(self) -> str:
        return self._kept.decode("utf-8", "replace")

    def _on_output(self, events: int) -> None:
        if not self._take():
            self._attendance.forget(self._fd)

    def _take(self) -> bool:
        try:
            piece = os.read(self._fd, CHUNK)
        except BlockingIOError:
            return False
        room = self._limit - len(self._kept)
        self._kept += piece[:room]
        self.truncated = self.truncated or len(piece) > room
        return bool(piece)


class Captured(Protocol):
    """An output that is known to its end, or to its limit."""

    @property
    def text(self) -> str: ...
    @property
    def truncated(self) -> bool: ...


class Text(NamedTuple):
    """An output that a Result holds."""

    text: str
    truncated: bool


def of_result(result: Result[Any], stdout: Captured, stderr: Captured, code: int) -> Document:
    """`code`: our exit code, which is not the command's own when it was we who ended it."""
    document: dict[str, Any] = {
        "argv": list(result.argv),
        "exit_code": result.exit_code,
        "returncode": result.returncode,
        "ok": result.ok,
        "signal": result.signal,
        "reason": result.reason,
        "stdout": stdout.text,
        "stderr": stderr.text,
        "truncated": stdout.truncated or stderr.truncated,
        "duration": result.duration,
        "usage": _plain(result.usage),
        "denials": [_plain(each) for each in result.denials],
        "network": dict(result.network),
        "no_route": result.no_route,
        "caged": result.caged,
        "notes": [_plain(each) for each in result.notes],
    }
    if code != result.exit_code:
        document |= {"exit_code": code, "ok": False, "reason": "timeout" if code == OUT_OF_TIME else "cancelled"}
    return document


def of_pipeline(name: str, result: PipelineResult[str]) -> Document:
    """Each stage as if it had been run alone; what the pipeline came to is that of the stage to blame."""
    stages = [
        of_result(each, Text(each.stdout or "", each.truncated), Text(each.stderr, each.truncated), each.exit_code)
        for each in result
    ]
    return {
        "pipeline": name,
        "exit_code": result.exit_code,
        "ok": result.ok,
        "reason": result.reason,
        "stdout": result.stdout,
        "duration": result.duration,
        "stages": stages,
    }


def of_failure(argv: list[str], code: int, message: str) -> Document:
    """The document when there is no result: nothing ran."""
    return {"argv": argv, "exit_code": code, "ok": False, "reason": "error", "error": message}


def _plain(value: Any) -> Any:
    return asdict(value) if is_dataclass(value) and not isinstance(value, type) else value
