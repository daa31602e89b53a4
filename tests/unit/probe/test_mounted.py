"""Mounts below a directory, as /proc tells them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from pysandbox.probe.mounted import find_mounts_below, unescaped


def test_what_is_mounted_in_the_root_is_found_and_nothing_of_a_directory_without_mounts(tmp_path: Path) -> None:
    found = find_mounts_below(["/"])
    assert "/proc" in found and "/" not in found
    assert find_mounts_below([str(tmp_path)]) == find_mounts_below([str(tmp_path / "absent")]) == ()


def test_a_name_with_spaces_is_itself() -> None:
    assert unescaped(rb"/mnt/with\040a\011tab\012and\134040") == b"/mnt/with a\ttab\nand\\040"


def test_without_a_proc_there_is_nothing_to_be_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: str, mode: str) -> None:
        raise FileNotFoundError(path)

    monkeypatch.setattr("builtins.open", refuse)
    assert find_mounts_below(["/"]) == ()
    monkeypatch.undo()
    assert os.path.exists("/proc/self/mountinfo")
