"""A directory to work in, for tests of the command line: with two files, and records of its own."""

from __future__ import annotations

import time
from pathlib import Path

import pytest


def enter_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, notes: str) -> Path:
    """`notes` is what the file of that name says; `gone` says "old". The files are older than what is opened next."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("PYSANDBOX_AUDIT", str(tmp_path / "audit" / "trail"))
    made = tmp_path / "project"
    made.mkdir()
    (made / "notes").write_text(notes)
    (made / "gone").write_text("old\n")
    monkeypatch.chdir(made)
    time.sleep(0.02)
    return made
