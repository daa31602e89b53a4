"""Running from a place that is gone, or that cannot be told: a clear word, or the long way."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from pysandbox.launch import plans


@pytest.mark.parametrize("arguments", [["run", "--", "true"], ["explain"], ["up"], ["recipe", "list"]], ids=" ".join)
def test_a_deleted_directory_is_named(tmp_path: Path, arguments: list[str]) -> None:
    script = 'mkdir "$0" && cd "$0" && rmdir "$0" && exec "$@"'
    command = ["/bin/sh", "-c", script, str(tmp_path / "gone"), sys.executable, "-P", "-m", "pysandbox", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 125, done.stderr
    assert "the working directory was deleted" in done.stderr and "change to another one" in done.stderr


def test_where_namespaces_are_hidden_nothing_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    assert plans.key_of("/launcher", [], "true", at_a_terminal=False) is not None
    plain = os.stat

    def hidden(path: object, *rest: object, **named: object) -> object:
        if str(path).startswith("/proc/self/ns/"):
            raise PermissionError(13, "Permission denied", path)
        return plain(path, *rest, **named)  # type: ignore[call-overload]

    monkeypatch.setattr(os, "stat", hidden)
    assert plans.key_of("/launcher", [], "true", at_a_terminal=False) is None
