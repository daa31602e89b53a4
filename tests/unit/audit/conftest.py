"""A stream of a few records, and hands that do things to it."""

from __future__ import annotations

from pathlib import Path

import pytest

from pysandbox.audit import AuditLog

EVENTS = 8


def filled(path: Path, events: int = EVENTS, rotate_mb: float = 64) -> Path:
    with AuditLog(path, rotate_mb=rotate_mb) as log:
        for number in range(events):
            log.append("subagent.exit", {"invocation_id": "A", "exit_code": number, "argv": ["é", "\udc80", '"']})
    return path


@pytest.fixture
def stream(tmp_path: Path) -> Path:
    return filled(tmp_path / "audit" / "events.jsonl")
