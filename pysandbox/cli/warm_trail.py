"""What a warm start leaves in the audit trail: the same records as the long way, from what `cli.keep` has put by.

The start is on the disk before the command is ordered; who cannot be recorded is not started. Imports next to nothing.
"""

from __future__ import annotations

import os
import time

from pysandbox.audit import files
from pysandbox.audit.ending import (
    LIMITS_SKIPPED,
    PLANTED,
    SPAWN,
    START_FAILED,
    end_records,
    failed_record,
    planted_record,
)
from pysandbox.audit.sink import AuditLog
from pysandbox.probe.planted import told

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from pysandbox.launch.orders import Report

SIGKILL, SIGSYS = 9, 31


class Trail:
    """Of one command. Without an audit (`told` is None) nothing is written."""

    def __init__(self, told: dict[str, Any] | None, argv: list[str]) -> None:
        """Raises AuditError where the stream cannot be opened."""
        path = files.chosen_path() if told is not None else None
        self._log = AuditLog(path) if path is not None else None
        self._told, self._argv = told or {}, argv
        self._which: dict[str, object] = {}  # the fields that name the command, once it is recorded
        self._began = 0.0
        self._blamed, self._asked = "", {}  # type: str, dict[str, object]

    def began(self, cage_id: str, command_id: int) -> None:
        """The record of the start, on the disk when this returns. Raises AuditError."""
        self._began = time.monotonic()
        if self._log is None:
            return
        for name, data in self._told["notes"]:
            self._log.append(name, data)
        before, after = self._told["summary"]
        which = {"invocation_id": cage_id, "command": command_id}
        shown = {"cage_summary": f"{before}{cage_id[:6]}{after}", "argv": self._argv}
        self._log.append(SPAWN, {**self._told["spawn"], **which, **shown}, durable=True)
        self._which = which
        for reason in self._told["skipped"]:
            self._log.append(LIMITS_SKIPPED, {"invocation_id": cage_id, "reason": reason})

    def ended(self, final: Report | None, planted: tuple[str, ...] = ()) -> None:
        """The records of the end; None: cage-init died with the command. Raises AuditError."""
        if self._log is None or not self._which:
            return
        which, self._which = self._which, {}
        if final is not None and (error := final.error) is not None:
            self._log.append(START_FAILED, failed_record(which, error.step, error.errno, error.filename))
            return
        if planted:
            self._log.append(PLANTED, planted_record(which, planted, told(planted)))
        for name, data in end_records(which, self._told["limits"] | self._asked, self._outcome(final)):
            self._log.append(name, data)

    def blamed(self, reason: str, seconds: float | None) -> None:
        """It is being ended, and why: `seconds` ran out, or somebody said so."""
        self._blamed, self._asked = reason, {"walltime": seconds} if seconds is not None else {}

    def _outcome(self, final: Report | None) -> dict[str, object]:
        code = os.waitstatus_to_exitcode(final.status) if final is not None else -SIGKILL
        if final is None:
            reason = "cancelled"
        elif final.timed_out or self._blamed == "timeout":
            reason = "timeout"
        elif self._blamed and code < 0:
            reason = self._blamed
        else:
            reason = "exited" if code >= 0 else "seccomp" if code == -SIGSYS else "signaled"
        return {
            "exit_code": 124 if reason == "timeout" else code if code >= 0 else 128 - code,
            "reason": reason,
            "duration_ms": round((time.monotonic() - self._began) * 1000),
            "user_ms": round(final.user_time * 1000) if final is not None else 0,
            "system_ms": round(final.system_time * 1000) if final is not None else 0,
            "max_rss_kb": final.max_rss_kb if final is not None else 0,
        }

    def close(self) -> None:
        """A command that was given up on is told as one that was cancelled."""
        if self._log is None:
            return
        try:
            self.ended(None)
        finally:
            self._log.close()
