"""Streams that are none: a directory, a pipe, a device, a text without an end. Nobody waits, and each is named."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from pysandbox.audit import read
from pysandbox.audit.files import head_path
from pysandbox.audit.read import records, verify
from pysandbox.audit.stream import AuditStream
from pysandbox.errors import AuditError

MADE: dict[str, tuple[Callable[[Path], object], str]] = {
    "directory": (lambda path: path.mkdir(), "is a directory; name the stream in it, as"),
    "pipe": (os.mkfifo, "is no regular file; name the file"),
    "device": (lambda path: path.symlink_to("/dev/zero"), "is no regular file; name the file"),
}


@pytest.mark.parametrize("what", MADE)
@pytest.mark.parametrize("call", [verify, lambda path: list(records(path))], ids=["verify", "records"])
def test_what_is_no_file_is_named(tmp_path, what, call):
    make, said = MADE[what]
    make(tmp_path / "odd")
    with pytest.raises(AuditError, match=said):
        call(str(tmp_path / "odd"))


def test_a_head_that_is_a_pipe_is_named_too(tmp_path):
    (tmp_path / "stream").write_bytes(b"")
    os.mkfifo(head_path(str(tmp_path / "stream")))
    with pytest.raises(AuditError, match=r"stream.head is no regular file"):
        verify(str(tmp_path / "stream"))


@pytest.mark.parametrize("what", ["directory", "pipe"])
def test_who_writes_to_one_does_not_wait_for_its_reader(tmp_path, what):
    make, said = MADE[what]
    make(tmp_path / "odd")
    with pytest.raises(AuditError, match=said):
        AuditStream(str(tmp_path / "odd"), 1 << 20, lambda: "now")


def test_a_text_without_an_end_is_read_in_parts(tmp_path, monkeypatch):
    monkeypatch.setattr(read, "LONGEST_LINE", 1000)
    (tmp_path / "binary").write_bytes(b"\0" * 10_500)
    report = verify(str(tmp_path / "binary"))
    assert (report.ok, report.records) == (False, 0)
